"""Verdicts of the real `plan` on the fake pool: false and missed promotions, fixed arms beside.

A run is a whole experiment: run-in, blocks of three pairs with a coin each, verdict, promotion, watch. The
fixed arms see the same noise: the pool's counters follow from its seed alone, so the windows that the
experiment used, and those it would have used had it gone on, are read again without any coin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvtune_api import codec
from kvtune_api.experiment import GuardrailPlan, KVCacheExperiment
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.names import Outcome
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Pair
from kvtune_api.units import Duration
from kvtune_api.wire import Counters
from kvtune_tuner.assign import coin
from kvtune_tuner.compare import Guardrail, PairDelta, Tests
from kvtune_tuner.scoring import TTFT
from kvtune_tuner.verdict import Continue, Promote, Reject, Rules, verdict
from tests.benchmarks.loop import SPEED, Loop
from tests.benchmarks.parallel import results
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table, share
from tests.fakes.pool import Pool
from tests.fakes.responses import Response, Surface
from tests.fakes.sim import PoolSettings

RUNS, QUICK_RUNS, PUBLISH_EVERY = 1000, 8, 100
NOISE_SD = 0.01
SHARE_SD = 0.02 / 3
"""A third of the margin of 2 points: the guardrail at d/sd 3."""

START = CacheConfig(cache_ttl=Duration("60s"))
CANDIDATE_TTL_SECONDS = 120.0
MOST_STEPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run."""

    gain: float
    seed: int

    @property
    def is_null(self) -> bool:
        """Whether candidate and incumbent are equal (mode AATest)."""
        return self.gain == 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one way of judging said."""

    verdict: str
    deltas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run judged both ways."""

    crossover: Judged
    fixed: Judged
    outcome: str
    noise: float


def policy(setting: Setting) -> KVCachePolicy:
    """Six agents, one knob, TTFT guardrail with the automatic margin."""
    return codec.parse(
        KVCachePolicy,
        {
            "metadata": {"name": "bench", "uid": f"bench-{setting.seed}", "generation": 1},
            "spec": {
                "targets": {"ttft": {"quantile": 0.9, "limit": "250ms"}},
                "knobs": {"cacheTTL": {"min": "30s", "max": "600s"}},
                "strategy": "Ladder",
                "mode": "AATest" if setting.is_null else "Auto",
                "experiment": {"cooldown": "0s", "maxPairs": 24},
            },
        },
    )


def surface(gain: float) -> Surface:
    """The candidate's TTL is better by `gain`, every other one is the same."""
    usual, better = Response(hit_rate=0.5), Response(hit_rate=0.5 + gain)
    return lambda config: better if point(config).get(Knob.CACHE_TTL) == CANDIDATE_TTL_SECONDS else usual


def judged(setting: Setting) -> Run:
    """Run one experiment to its end; then judge the same noise with fixed arms."""
    settings = PoolSettings(seed=setting.seed, noise_sd=NOISE_SD, share_sd=SHARE_SD, speed=SPEED)
    pool = Pool(settings, surface=surface(setting.gain), config=START)
    loop = Loop(pool=pool, policy=policy(setting), now=settings.start + 600.0)
    first_from: float | None = None
    for _ in range(MOST_STEPS):
        loop.step()
        running = loop.running
        if first_from is None and running is not None and running.status.noise_objective is not None:
            epoch = running.status.epoch
            first_from = epoch.measure_from if epoch else None
        if loop.ended:
            break
    else:
        raise RuntimeError(f"seed {setting.seed}: no end after {MOST_STEPS} steps: {loop.status.waiting_for}")
    experiment = loop.ended[0]
    record = experiment.status
    last = record.decisions[-1] if record.decisions else None
    crossover = Judged(verdict=last.verdict if last else "None", deltas=last.deltas if last else 0)
    fixed = Judged(verdict="None", deltas=0)
    if first_from is not None:
        fixed = _fixed(setting, settings, experiment, first_from)
    return Run(
        crossover=crossover,
        fixed=fixed,
        outcome=f"{record.outcome}({record.reason})",
        noise=record.noise_objective or 0.0,
    )


def _fixed(
    setting: Setting, settings: PoolSettings, experiment: KVCacheExperiment, first_from: float
) -> Judged:
    """The same e-processes when each pair's first coin holds for the whole experiment."""
    spec, record = experiment.spec, experiment.status
    base = Pool(settings, surface=surface(0.0), config=START)
    tests = empty_tests(record.noise_objective or 0.0, record.guardrails)
    rules = Rules(max_pairs=spec.max_pairs)
    length = record.washout + record.window
    second_first = [coin(spec.seed, block=0, pair_index=i) for i in range(len(spec.pairs))]
    for block in range(-(-spec.max_pairs // len(spec.pairs))):
        starts = [first_from + (2 * block + epoch) * length for epoch in (0, 1)]
        windows = [(start, start + record.window) for start in starts]
        tests = tests.add_block([
            _fixed_delta(base, pair, windows, second_is_candidate=second, gain=setting.gain)
            for pair, second in zip(spec.pairs, second_first, strict=True)
        ])  # fmt: skip
        found = verdict(tests, rules)
        if not isinstance(found, Continue):
            return Judged(verdict=type(found).__name__, deltas=tests.n)
    raise AssertionError("max_pairs ends it")


def empty_tests(noise: float, plans: Sequence[GuardrailPlan]) -> Tests:
    """The tests of an experiment before its first Delta."""
    return Tests.start(
        noise, guardrails=[Guardrail(name=plan.name, margin=plan.margin, s0=plan.sd) for plan in plans]
    )


def _fixed_delta(
    base: Pool, pair: Pair, windows: Sequence[tuple[float, float]], *, second_is_candidate: bool, gain: float
) -> PairDelta:
    sign = -1.0 if second_is_candidate else 1.0
    hits, shares = 0.0, 0.0
    for start, end in windows:
        first, second = (_figures(base, name, start, end) for name in (pair.first, pair.second))
        hits += sign * (first[0] - second[0]) / len(windows)
        shares += sign * (first[1] - second[1]) / len(windows)
    return PairDelta(objective=hits + gain, guardrails={TTFT: shares})


def _figures(pool: Pool, name: str, start: float, end: float) -> tuple[float, float]:
    """Hit rate, and share within 250 ms, of one agent in one window."""
    a, b = (pool.counters(name, at, end) for at in (start, end))
    assert isinstance(a, Counters) and isinstance(b, Counters) and a.ttft and b.ttft
    assert None not in (a.hit_tokens, a.prompt_tokens, b.hit_tokens, b.prompt_tokens)
    prompt = (b.prompt_tokens or 0.0) - (a.prompt_tokens or 0.0)
    at = a.ttft.bounds.index(0.25)
    within = (b.ttft.counts[at] - a.ttft.counts[at]) / (b.ttft.counts[-1] - a.ttft.counts[-1])
    return ((b.hit_tokens or 0.0) - (a.hit_tokens or 0.0)) / prompt, within


def measure(effort: Effort) -> Iterator[Results]:
    """Give both tables as runs come."""
    runs = effort.runs(RUNS, QUICK_RUNS)
    tables: list[Table] = []
    for gain in (0.0, NOISE_SD):
        settings = [Setting(gain=gain, seed=seed) for seed in range(runs)]
        name = "verdicts A/A" if gain == 0.0 else "verdicts effect/sd 1"
        done: list[Run] = []
        for _, run in results(judged, settings, processes=effort.processes, name=name):
            done.append(run)
            if len(done) % PUBLISH_EVERY == 0 and len(done) < runs:
                yield _results((*tables, _table(gain, done)), runs, partial=True)
        tables.append(_table(gain, done))
        yield _results(tuple(tables), runs, partial=len(tables) < 2)


def _results(tables: tuple[Table, ...], runs: int, *, partial: bool) -> Results:
    return Results(tables=tables, seeds=f"seeds 0 to {runs - 1}", partial=partial)


def _table(gain: float, runs: Sequence[Run]) -> Table:
    ways = {
        "crossover, the real plan": [run.crossover for run in runs],
        "fixed arms, same e-process, same noise": [run.fixed for run in runs],
    }
    promote, reject = Promote.__name__, Reject.__name__
    rows = tuple(
        (
            way,
            share(_count(judged_, promote, 18), len(runs)),
            share(_count(judged_, promote, 24), len(runs)),
            share(_count(judged_, reject, 24), len(runs)),
        )
        for way, judged_ in ways.items()
    )
    outcomes = sorted({run.outcome for run in runs})
    ended = ", ".join(f"{one} {sum(run.outcome == one for run in runs)}" for one in outcomes)
    noise = sum(run.noise for run in runs) / len(runs)
    goal = _goal(gain, runs)
    kept = sum(run.outcome.startswith(Outcome.PROMOTED) for run in runs)
    watch = f"; the watch kept {kept}" if gain else ""
    return Table(
        title="A/A: candidate equals incumbent" if gain == 0.0 else "A better candidate: effect/sd 1",
        columns=("Arms", "Promote by 18 Deltas", "Promote by 24", "Reject by 24"),
        rows=rows,
        notes=(
            goal,
            "6 agents in 3 pairs, M 120 s, sd of a Delta .01, TTFT guardrail with margin 2 points at d/sd 3, "
            "s0 from the run-in; agents differ for good by .02 (sd), matched into pairs by load and hit rate",
            f"outcomes: {ended}{watch}; mean s0 {noise:.4f}",
        ),
    )


def _count(judged_: Sequence[Judged], verdict_: str, by: int) -> int:
    return sum(one.verdict == verdict_ and one.deltas <= by for one in judged_)


def _goal(gain: float, runs: Sequence[Run]) -> str:
    crossover = [run.crossover for run in runs]
    if gain == 0.0:
        found = _count(crossover, Promote.__name__, 24) / len(runs)
        return f"goal: promoted at most .02 of A/A runs: {found:.3f}, {'met' if found <= 0.02 else 'MISSED'}"
    found = _count(crossover, Promote.__name__, 18) / len(runs)
    return f"goal: promoted by 18 Deltas at least .86: {found:.3f}, {'met' if found >= 0.86 else 'MISSED'}"
