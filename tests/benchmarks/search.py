"""How long strategies take until they run within 2 % of the best static configuration.

A run is the real plan over six in-process serving models. Strategies and starts of one seed share the
traffic. A configuration's true Y is that of one agent which runs nothing else, on traffic of another seed;
the best is that of the lab's grid on the same traffic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import Strategy
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.grid import Bounds, GridPoint, Study, evaluate
from kvtune_lab.grid import search as grid_search
from kvtune_lab.traffic import Request
from kvtune_tuner.effect import Prices
from tests.benchmarks.loop import Loop
from tests.benchmarks.parallel import results, told
from tests.benchmarks.proportional import Controller
from tests.benchmarks.replay_pool import ORIGIN, WARM_SECONDS, Driven, ReplayPool, driven
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.benchmarks.traffic import CHAT_1, CHAT_5, MOONCAKE, WORKLOADS, Workload, by_agent, present

NEAR = 0.98
EVALUATION_SEED = 9_001
EVALUATED = {CHAT_5.name: (1, 4200.0), CHAT_1.name: (1, 13_200.0), MOONCAKE.name: (2, 7080.0)}
"""Agents and seconds (the warm-up included) on which a static configuration is evaluated."""

CONTROLLER = "Proportional, untested"
MAIN = (("Auto", 0.05),)
CASES = (
    *MAIN,
    ("Auto", 0.10),
    ("Auto", 0.03),
    ("Ladder", 0.05),
    ("Optuna", 0.05),
    (CONTROLLER, 0.05),
)
"""Strategy, and the start's host tier as a share of the working set."""

SEEDS_OF_ALL, SEEDS_OF_MAIN = 5, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All cases of one workload and seed."""

    workload: str
    seed: int
    cases: tuple[tuple[str, float], ...]
    quick: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One experiment in short."""

    outcome: str
    effect: float | None
    truth: float
    deltas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: when it ran what, as true Y, and its experiments."""

    strategy: str
    start: float
    steps: tuple[tuple[float, float], ...]
    """Seconds since the start, and the true Y of what ran from then on."""

    tried: tuple[Tried, ...]
    ended_in: str


@dataclass(slots=True, kw_only=True)
class Tuning:
    """A loop that notes every change of the incumbent."""

    loop: Loop
    pool: ReplayPool
    over: bool = False
    incumbents: list[tuple[float, CacheConfig]] = field(default_factory=list)

    @property
    def now(self) -> float:
        """Engine seconds of the next step."""
        return self.loop.now

    def step(self) -> None:
        """One step of the real plan."""
        at = self.loop.now
        self.loop.step()
        running = self.loop.status.incumbent
        if running is not None and (not self.incumbents or self.incumbents[-1][1] != running):
            self.incumbents.append((at - ORIGIN, running))


def workload_named(name: str) -> Workload:
    """One of the workloads."""
    return next(workload for workload in WORKLOADS if workload.name == name)


@cache
def evaluation_traffic(name: str) -> tuple[tuple[Request, ...], ...]:
    """The traffic on which static configurations of a workload are compared."""
    workload = workload_named(name)
    agents, seconds = EVALUATED[name]
    seed = EVALUATION_SEED if workload.rate is not None else 0
    return tuple(tuple(one) for one in by_agent(workload.requests(seed), seconds, agents=agents))


def study_of(workload: Workload) -> Study:
    """What is held fixed in the evaluation."""
    return Study(
        constants=workload.constants,
        prices=Prices(memory=workload.price_memory, eviction_pass=1.0, bytes_down=0.0),
        limit_seconds=workload.limit_seconds,
        measure_from_s=WARM_SECONDS,
    )


@cache
def true_objective(name: str, settings: CacheSettings) -> float:
    """Y of an agent that runs nothing else."""
    return evaluate(evaluation_traffic(name), settings, study_of(workload_named(name))).objective


def best_static(workload: Workload, effort: Effort) -> GridPoint:
    """The best of the lab's grid over the policy's bounds."""
    blocks_per_gib = 2**30 / workload.constants.block_bytes
    low, high = (round(gib * blocks_per_gib) for gib in workload.host_gib)
    bounds = Bounds(
        ttl_seconds=(420.0, 420.0) if effort.quick else (30.0, 600.0),
        eviction_ratio=(0.1, 0.1) if effort.quick else (0.05, 0.3),
        host_blocks=(low, high),
    )
    found = grid_search(
        evaluation_traffic(workload.name),
        bounds,
        study_of(workload),
        rounds=effort.runs(3, 1),
        processes=effort.processes,
        progress=lambda done, most: (
            told(f"grid, {workload.name}: {done} of at most {most}") if done % 20 == 0 else None
        ),
    )
    return found.best


def run_all(task: Task) -> tuple[Run, ...]:
    """Run all cases of a task over one stream of requests."""
    workload = workload_named(task.workload)
    loops: list[Driven] = []
    for strategy, share in task.cases:
        start = workload.start(share)
        pool = ReplayPool(workload, start)
        if strategy == CONTROLLER:
            policy = workload.policy(start, Strategy.PROPORTIONAL)
            loops.append(Controller(pool=pool, policy=policy, now=ORIGIN))
        else:
            policy = workload.policy(start, Strategy(strategy))
            loops.append(Tuning(loop=Loop(pool=pool, policy=policy, now=ORIGIN), pool=pool))
    driven(loops, workload.requests(task.seed), workload.virtual_seconds / (8 if task.quick else 1))
    return tuple(_run(workload, case, one) for case, one in zip(task.cases, loops, strict=True))


def _run(workload: Workload, case: tuple[str, float], driven_: Driven) -> Run:
    strategy, share = case
    if isinstance(driven_, Controller):
        end = driven_.measured(workload.price_memory)
        return Run(strategy=strategy, start=share, steps=((0.0, end),), tried=(), ended_in=driven_.shown)
    assert isinstance(driven_, Tuning)
    return Run(
        strategy=strategy,
        start=share,
        steps=tuple((at, _truth(workload, config)) for at, config in driven_.incumbents),
        tried=tuple(_tried(workload, experiment) for experiment in driven_.loop.ended),
        ended_in=driven_.loop.status.waiting_for,
    )


def _truth(workload: Workload, config: CacheConfig) -> float:
    return true_objective(workload.name, workload.settings(config))


def _tried(workload: Workload, experiment: KVCacheExperiment) -> Tried:
    record, spec = experiment.status, experiment.spec
    return Tried(
        outcome=f"{record.outcome}({record.reason})",
        effect=record.evidence.effect,
        truth=_truth(workload, spec.candidate) - _truth(workload, spec.incumbent),
        deltas=record.evidence.deltas,
    )


def measure(effort: Effort) -> Iterator[Results]:
    """Find the best of every workload, then run seed after seed."""
    workloads = present()
    bests = {workload.name: best_static(workload, effort) for workload in workloads}
    runs: dict[str, list[Run]] = {workload.name: [] for workload in workloads}
    tasks = _tasks(effort, workloads)
    found = results(run_all, tasks, processes=effort.processes, name="search")
    for done, (task, more) in enumerate(found, start=1):
        runs[task.workload] += more
        for run in more:
            told(_line(task, run, bests[task.workload]))
        tables = [_table(workload, bests[workload.name], runs[workload.name]) for workload in workloads]
        tables.append(_experiments(runs))
        yield Results(
            tables=tuple(tables),
            seeds=f"seeds from 0 on, as many as the tables say; static evaluation on seed {EVALUATION_SEED}",
            partial=done < len(tasks),
        )


def _tasks(effort: Effort, workloads: Sequence[Workload]) -> list[Task]:
    """Every case for the first seeds, the default strategy for all; the seeds in turn."""
    tasks = []
    for seed in range(effort.runs(SEEDS_OF_MAIN, 1)):
        cases = CASES if seed < SEEDS_OF_ALL else MAIN
        tasks += [
            Task(workload=workload.name, seed=seed, cases=cases, quick=effort.quick) for workload in workloads
        ]
    return tasks


def _line(task: Task, run: Run, best: GridPoint) -> str:
    steps = " ".join(f"{at:.0f}s:{y / best.objective:.3f}" for at, y in run.steps)
    tried = " ".join(f"{one.outcome}[{one.deltas},{one.effect},{one.truth:+.4f}]" for one in run.tried)
    return f"{task.workload} seed {task.seed} {run.strategy} {run.start}: {steps} | {tried} | {run.ended_in}"


def reached(run: Run, best: float) -> float | None:
    """Seconds until the incumbent was within 2 % of the best; None: never."""
    return next((at for at, y in run.steps if y >= NEAR * best), None)


def _table(workload: Workload, best: GridPoint, runs: Sequence[Run]) -> Table:
    rows = []
    for strategy, share in CASES:
        mine = [run for run in runs if (run.strategy, run.start) == (strategy, share)]
        if mine:
            rows.append(_row(workload, best, mine))
    s = best.settings
    host_gib = s.host_blocks * workload.constants.block_bytes / 2**30
    return Table(
        title=workload.name,
        columns=("Strategy, start", "Runs", "Within 2 %", "Hours (median)", "Experiments until then",
                 "Start Y / best", "End Y / best (worst)", "Promoted / lost"),
        rows=tuple(rows),
        notes=(
            f"best static: TTL {s.ttl_seconds:.0f} s, ratio {s.eviction_ratio:.3g}, host {host_gib:.0f} GiB: "
            f"Y {best.objective:.4f}, hit rate {best.hit_rate:.3f}, share within "
            f"{workload.limit_seconds:g} s {best.share_within_limit:.3f}, utilisation {best.utilisation:.2f}",
            f"{workload.virtual_seconds / 3600:.1f} virtual hours a run after 1,200 s of traffic; start: the "
            f"host tier as a share of {workload.working_set_gib:g} GiB, TTL 30 s, ratio .3; steps of at most "
            f"a factor 4, M from {workload.window}, 6 agents; hours until the promotion's watch has ended",
        ),
    )  # fmt: skip


def _row(workload: Workload, best: GridPoint, runs: Sequence[Run]) -> tuple[str, ...]:
    strategy, share = runs[0].strategy, runs[0].start
    ends = [run.steps[-1][1] / best.objective for run in runs]
    start = _truth(workload, workload.start(share)) / best.objective
    head = (f"{strategy}, host {share:.0%}", str(len(runs)))
    tail = (f"{start:.3f}", f"{median(ends):.3f} ({min(ends):.3f})")
    if strategy == CONTROLLER:
        return (*head, "-", "-", "-", *tail, "-")
    times = [at for run in runs if (at := reached(run, best.objective)) is not None]
    tries = [
        sum(one.outcome.startswith(Outcome.PROMOTED) for one in run.tried[: _count_until(run, best)])
        for run in runs
    ]
    until = [_count_until(run, best) for run in runs if reached(run, best.objective) is not None]
    promoted = sum(tries)
    return (
        *head,
        f"{len(times)} of {len(runs)}",
        f"{median(times) / 3600:.2f}" if times else "-",
        f"{sum(until) / len(until):.1f}" if until else "-",
        *tail,
        f"{promoted} / {sum(len(run.tried) for run in runs) - promoted}",
    )


def _count_until(run: Run, best: GridPoint) -> int:
    """Experiments until the run was near the best; all, when it never was."""
    at = reached(run, best.objective)
    if at is None:
        return len(run.tried)
    promotions = sum(1 for seconds, _ in run.steps[1:] if seconds <= at)
    count = 0
    for number, one in enumerate(run.tried, start=1):
        count += one.outcome.startswith(Outcome.PROMOTED)
        if count == promotions:
            return number if promotions else 0
    return len(run.tried)


def _experiments(runs: dict[str, list[Run]]) -> Table:
    """What became of all experiments of the search, against the truth."""
    rows = []
    for name, mine in runs.items():
        tried = [one for run in mine for one in run.tried]
        reverts = [one for one in tried if OutcomeReason.WATCH in one.outcome]
        trips = [one for one in tried if OutcomeReason.BREAKER in one.outcome]
        promoted = [one for one in tried if one.outcome.startswith(Outcome.PROMOTED)]
        ratios = sorted(
            one.effect / one.truth for one in tried if one.effect is not None and abs(one.truth) >= 0.03
        )
        rows.append((
            name,
            str(len(tried)),
            f"{len(promoted)} ({sum(one.truth < 0 for one in promoted)})",
            f"{len(reverts)} ({sum(one.truth >= 0 for one in reverts)})",
            f"{len(trips)} ({sum(one.truth >= 0 for one in trips)})",
            f"{median(ratios):.2f} ({len(ratios)})" if ratios else "-",
        ))  # fmt: skip
    return Table(
        title="All experiments of these runs, against the truth",
        columns=("Workload", "Experiments", "Promoted (worse in truth)", "Watch reverts (false)",
                 "Breaker trips (on a better candidate)", "Measured / true effect (of how many)"),
        rows=tuple(rows),
        notes=("true effect: static Y of candidate minus incumbent on the evaluation traffic, which has "
               "another seed; the ratio is the median over experiments with a true effect of at least .03",),
    )  # fmt: skip
