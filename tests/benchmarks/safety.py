"""What keeps an experiment harmless: false trips of the breaker, how soon it acts, and what W is for.

All on generated chat at 5 requests/s per agent, through the real plan over in-process serving models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import KVCachePolicy, Mode, Strategy
from tests.benchmarks.loop import Loop
from tests.benchmarks.parallel import results
from tests.benchmarks.replay_pool import ORIGIN, Driven, ReplayPool, driven
from tests.benchmarks.search_runs import true_objective
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table, share
from tests.benchmarks.traffic import CHAT_5, config_of

GOOD = config_of(420.0, 0.1, 285.0)
DEMO_TICK_SECONDS = 10.0
QUARTER, SMALL, EQUAL_GOOD, EQUAL_POOR = (
    "host / 4",
    "host / 1.25, again and again",
    "A/A at the best",
    "A/A at the start",
)
WASHED, UNWASHED = "W as designed", "W 5 s"
KINDS = (QUARTER, SMALL, EQUAL_GOOD, EQUAL_POOR, WASHED, UNWASHED)
SECONDS = {QUARTER: 4000.0, SMALL: 12_000.0, EQUAL_GOOD: 22_000.0, EQUAL_POOR: 9500.0}
SEEDS = {QUARTER: 12, SMALL: 4, EQUAL_GOOD: 2, EQUAL_POOR: 12, WASHED: 5, UNWASHED: 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some kinds of run over one stream of requests."""

    kinds: tuple[str, ...]
    seed: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One experiment: what became of it, and when the breaker acted."""

    kind: str
    outcome: str
    deltas: int
    effect: float | None
    truth: float
    caught_after: float | None
    """Seconds from the candidate's start to the breaker."""


@dataclass(slots=True, kw_only=True)
class Watched:
    """A loop that ends after so many experiments, and knows when the candidate began."""

    kind: str
    loop: Loop
    pool: ReplayPool
    most: int
    began: float | None = None
    caught_after: float | None = None

    @property
    def now(self) -> float:
        """Engine seconds of the next step."""
        return self.loop.now

    @property
    def over(self) -> bool:
        """Whether enough experiments have ended."""
        return len(self.loop.ended) >= self.most

    def step(self) -> None:
        """One step of the real plan."""
        self.loop.step()
        running = self.loop.running
        if running is None:
            return
        record = running.status
        if self.began is None and record.epoch is not None and record.epoch.block >= 0:
            self.began = record.epoch.switch_at
        if record.breach is not None and self.began is not None and self.caught_after is None:
            self.caught_after = record.breach.at - self.began


def _loop(kind: str) -> Watched:
    start = CHAT_5.start(0.05) if kind in (EQUAL_POOR, WASHED, UNWASHED) else GOOD
    pool = ReplayPool(CHAT_5, start)
    most = {QUARTER: 1, WASHED: 1, UNWASHED: 1}.get(kind, 1000)
    loop = Loop(pool=pool, policy=_policy(kind, start), now=ORIGIN, tick_seconds=DEMO_TICK_SECONDS)
    return Watched(kind=kind, loop=loop, pool=pool, most=most)


def _policy(kind: str, start: CacheConfig) -> KVCachePolicy:
    if kind == QUARTER:
        return CHAT_5.host_only_policy(start, 4.0)
    if kind == SMALL:
        return CHAT_5.host_only_policy(start, 1.25)
    if kind == UNWASHED:
        return CHAT_5.unwashed_policy(start, "5s")
    mode = Mode.AA_TEST if kind in (EQUAL_GOOD, EQUAL_POOR) else Mode.AUTO
    return CHAT_5.policy(start, Strategy.AUTO, mode=mode)


def run(task: Task) -> tuple[Seen, ...]:
    """Run the kinds of a task side by side."""
    loops = [_loop(kind) for kind in task.kinds]
    sides: list[Driven] = list(loops)
    driven(sides, CHAT_5.requests(100 + task.seed), task.seconds)
    return tuple(_seen(one, experiment) for one in loops for experiment in one.loop.ended)


def _seen(watched: Watched, experiment: KVCacheExperiment) -> Seen:
    record, spec = experiment.status, experiment.spec
    wanted = watched.kind in (WASHED, UNWASHED)
    return Seen(
        kind=watched.kind,
        outcome=f"{record.outcome}({record.reason})",
        deltas=record.evidence.deltas,
        effect=record.evidence.effect,
        truth=_truth(spec.candidate) - _truth(spec.incumbent) if wanted else 0.0,
        caught_after=watched.caught_after if record.reason is OutcomeReason.BREAKER else None,
    )


def _truth(config: CacheConfig) -> float:
    return true_objective(CHAT_5.name, CHAT_5.settings(config))


def _tasks(effort: Effort) -> list[Task]:
    if effort.quick:
        return [Task(kinds=(QUARTER, WASHED, UNWASHED), seed=0, seconds=2500.0)]
    tasks = [
        Task(kinds=(kind,), seed=seed, seconds=seconds)
        for kind, seconds in SECONDS.items()
        for seed in range(SEEDS[kind])
    ]
    both = [Task(kinds=(WASHED, UNWASHED), seed=seed, seconds=6000.0) for seed in range(SEEDS[WASHED])]
    return sorted([*tasks, *both], key=lambda task: task.seed)


def measure(effort: Effort) -> Iterator[Results]:
    """Give the tables after every run."""
    tasks, seen = _tasks(effort), list[Seen]()
    found = results(run, tasks, processes=effort.processes, name="safety")
    for done, (_, more) in enumerate(found, start=1):
        seen += more
        yield Results(
            tables=(_outcomes(seen), _washout(seen)),
            seeds="seeds from 100 on, as many as the tables say",
            partial=done < len(tasks),
        )


def _outcomes(seen: Sequence[Seen]) -> Table:
    rows = []
    for kind in KINDS[:4]:
        mine = [one for one in seen if one.kind == kind]
        trips = [one.caught_after for one in mine if one.caught_after is not None]
        span = f"{median(trips):.0f} ({min(trips):.0f} to {max(trips):.0f})" if trips else "-"
        rows.append((
            kind,
            str(len(mine)),
            share(len(trips), len(mine)),
            span,
            str(sum(one.outcome.startswith(Outcome.PROMOTED) for one in mine)),
            str(sum(one.outcome.startswith(Outcome.REJECTED) for one in mine)),
        ))  # fmt: skip
    return Table(
        title="The circuit breaker",
        columns=("Candidate", "Experiments", "Breaker trips", "Caught after, s (median, range)", "Promoted",
                 "Rejected"),
        rows=tuple(rows),
        notes=(
            "chat, 5 requests/s per agent, TTFT target .9 within 250 ms, ticks of 10 s; the best is "
            "TTL 420 s, host 285 GiB, ratio .1, the start TTL 30 s, host 57 GiB, ratio .3",
            "design: false trips 0 of 300 (here: the rows A/A and host / 1.25), host / 4 caught in 60-70 s; "
            "an A/A that is promoted or rejected is a false positive",
        ),
    )  # fmt: skip


def _washout(seen: Sequence[Seen]) -> Table:
    rows = []
    for kind, design in ((WASHED, ".99-1.02"), (UNWASHED, ".69-.84 (W 0)")):
        mine = [one for one in seen if one.kind == kind and one.effect is not None]
        ratios = sorted((one.effect or 0.0) / one.truth for one in mine)
        shown = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"
        rows.append((kind, str(len(mine)), shown, design))
    return Table(
        title="Effect bias by washout: first experiment from the poor start",
        columns=("Washout", "Experiments", "Measured / true effect (median, range)", "Design"),
        rows=tuple(rows),
        notes=("true effect: static Y of candidate minus incumbent, on traffic of another seed",),
    )
