"""Run strategies on replayed traffic, and say what each configuration that they ran is truly worth.

A run is the real plan over six in-process serving models. A configuration's true Y is that of agents which
run nothing else, on traffic of another seed.
"""

from dataclasses import dataclass, field
from functools import cache

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.policy import Strategy
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.grid import Study, evaluate
from kvtune_lab.traffic import Request
from kvtune_tuner.effect import Prices
from tests.benchmarks.loop import Loop
from tests.benchmarks.proportional import Controller
from tests.benchmarks.replay_pool import ORIGIN, WARM_SECONDS, Driven, ReplayPool, driven
from tests.benchmarks.traffic import CHAT_1, CHAT_5, MOONCAKE, WORKLOADS, Workload, by_agent

EVALUATION_SEED = 9_001
EVALUATED = {CHAT_5.name: (1, 4200.0), CHAT_1.name: (1, 13_200.0), MOONCAKE.name: (2, 7080.0)}
"""Agents and seconds (the warm-up included) on which a static configuration is evaluated."""

CONTROLLER = "Proportional, untested"


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
        steps=tuple((at, truth(workload, config)) for at, config in driven_.incumbents),
        tried=tuple(_tried(workload, experiment) for experiment in driven_.loop.ended),
        ended_in=driven_.loop.status.waiting_for,
    )


def truth(workload: Workload, config: CacheConfig) -> float:
    return true_objective(workload.name, workload.settings(config))


def _tried(workload: Workload, experiment: KVCacheExperiment) -> Tried:
    record, spec = experiment.status, experiment.spec
    return Tried(
        outcome=f"{record.outcome}({record.reason})",
        effect=record.evidence.effect,
        truth=truth(workload, spec.candidate) - truth(workload, spec.incumbent),
        deltas=record.evidence.deltas,
    )
