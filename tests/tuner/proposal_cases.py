"""Policies, reports and ended experiments for the tests of the proposers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import strategies as st

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, config, number_of
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import Objective, PolicySpec, Prices, Strategy, Targets, TTFTTarget
from kvtune_api.policy_knobs import Knobs, TierKnobs
from kvtune_api.ranges import CountRange, DurationRange, PolicyChoices, QuantityRange, RatioRange
from kvtune_api.status import Trial
from kvtune_api.units import Duration, Quantity
from kvtune_api.wire import Geometry, KnobSupport, Load, Report, ReuseAges, Role, Running
from kvtune_tuner.box import step_box
from kvtune_tuner.proposal import Request
from kvtune_tuner.space import space_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GIB = 2**30
BLOCK_BYTES = 16 * 2**20
CHAT_PRICES = Prices(memory=0.05, eviction_pass=1.0)
"""Those of examples/chat.yaml (experiments.md 9)."""

ENDINGS: dict[str, tuple[Outcome, OutcomeReason]] = {
    "promoted": (Outcome.PROMOTED, OutcomeReason.SUPERIOR),
    "rejected": (Outcome.REJECTED, OutcomeReason.HARM_OBJECTIVE),
    "harmful": (Outcome.REJECTED, OutcomeReason.HARM_GUARDRAIL),
    "rolled back": (Outcome.ROLLED_BACK, OutcomeReason.BREAKER),
    "undecided": (Outcome.INCONCLUSIVE, OutcomeReason.MAX_PAIRS),
    "no data": (Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA),
    "sample ratio": (Outcome.INCONCLUSIVE, OutcomeReason.SAMPLE_RATIO),
    "not approved": (Outcome.INCONCLUSIVE, OutcomeReason.NOT_APPROVED),
    "aborted": (Outcome.ABORTED, OutcomeReason.USER),
}


NUMERIC = (Knob.CACHE_TTL, Knob.EVICTION_RATIO, Knob.HOST_MEMORY)
"""The knobs of the chat example that the reuse model knows."""

CHOICES = (EvictionPolicy.LRU, EvictionPolicy.REUSE_AWARE, EvictionPolicy.ARC)
"""Policies in the order in which they are tried."""


def made(
    ttl_s: float | None = 30,
    ratio: float | None = 0.3,
    host_gib: float | None = 57,
    policy: EvictionPolicy | None = None,
) -> CacheConfig:
    """Write a configuration; None leaves a knob unset."""
    values = {
        Knob.CACHE_TTL: ttl_s,
        Knob.EVICTION_RATIO: ratio,
        Knob.HOST_MEMORY: None if host_gib is None else host_gib * GIB,
        Knob.EVICTION_POLICY: None if policy is None else number_of(policy),
    }
    return config({knob: value for knob, value in values.items() if value is not None})


def knobs_of(*, step: float = 4.0, only: Sequence[Knob] = NUMERIC) -> Knobs:
    """Give the knobs of the chat example, by default without the eviction policy and the threshold."""
    ttl = DurationRange(min=Duration("30s"), max=Duration("600s"), start=Duration("30s"), largest_step=step)
    ratio = RatioRange(min=0.05, max=0.3, start=0.3, largest_step=step)
    host = QuantityRange(
        min=Quantity("14Gi"), max=Quantity("912Gi"), start=Quantity("57Gi"), largest_step=step
    )
    return Knobs(
        cache_ttl=ttl if Knob.CACHE_TTL in only else None,
        eviction_ratio=ratio if Knob.EVICTION_RATIO in only else None,
        tiers=TierKnobs(host_memory=host if Knob.HOST_MEMORY in only else None),
        eviction_policy=PolicyChoices(choices=CHOICES) if Knob.EVICTION_POLICY in only else None,
        store_threshold=CountRange(min=1, max=4) if Knob.STORE_THRESHOLD in only else None,
    )


def policy(
    knobs: Knobs | None = None, *, strategy: Strategy = Strategy.AUTO, prices: Prices = CHAT_PRICES
) -> PolicySpec:
    """Make a policy with a target of the time to first token."""
    return PolicySpec(
        targets=Targets(ttft=TTFTTarget(quantile=0.9, limit=Duration("250ms"))),
        objective=Objective(prices=prices),
        knobs=knobs if knobs is not None else knobs_of(),
        strategy=strategy,
    )


def exponential_ages(
    *, share: float, mean_s: float, touches_per_s: float, seconds: float = 3600.0, bins: int = 97
) -> ReuseAges:
    """Count re-touches whose ages are exponential: F(a) = share x (1 - exp(-a / mean))."""
    edges = [0.0, *(2.0 ** (i / 8) for i in range(bins))]
    touches = touches_per_s * seconds
    below = [share * -math.expm1(-edge / mean_s) for edge in edges]
    counts = [touches * (b - a) for a, b in pairwise(below)]
    return ReuseAges(touches=touches, prompt_blocks=touches, seconds=seconds, counts=tuple(counts))


def report(
    name: str = "a",
    *,
    runs: CacheConfig | None = None,
    reuse: ReuseAges | None = None,
    live: Sequence[Knob] = tuple(Knob),
    device_blocks: int = 500,
    rate: float | None = 5.0,
) -> Report:
    """Make what an agent reports."""
    config = runs if runs is not None else made()
    return Report(
        agent=name,
        version="1",
        engine="replay",
        clock=0.0,
        started_at=0.0,
        running=Running(role=Role.INCUMBENT, config=config, incumbent=config),
        supports=tuple(KnobSupport(knob=knob, live=True) for knob in live),
        geometry=Geometry(block_tokens=128, block_bytes=BLOCK_BYTES, device_blocks=device_blocks),
        load=Load(span_seconds=300, request_rate=rate, hit_rate=0.5),
        reuse=reuse,
    )


def chat_report(name: str = "a", *, runs: CacheConfig | None = None) -> Report:
    """Report reuse that pays for a larger tier and a longer TTL than those of `made()`."""
    ages = exponential_ages(share=0.8, mean_s=150.0, touches_per_s=120.0)
    return report(name, runs=runs, reuse=ages)


def trial(
    number: int,
    candidate: CacheConfig,
    ending: str = "rejected",
    *,
    incumbent: CacheConfig | None = None,
    strategy: str = Strategy.REUSE_MODEL,
    effect: float | None = -0.01,
    guardrails: dict[str, float] | None = None,
    ended_at: datetime = NOW - timedelta(hours=1),
    shifted: bool = False,
) -> Trial:
    """Make an ended experiment."""
    outcome, reason = ENDINGS[ending]
    return Trial(
        experiment=f"e-{number}",
        number=number,
        candidate=candidate,
        incumbent=incumbent if incumbent is not None else made(),
        strategy=strategy,
        outcome=outcome,
        reason=reason,
        ended_at=ended_at,
        deltas=0 if effect is None else 12,
        effect=effect,
        guardrails=guardrails if guardrails is not None else {},
        shifted=shifted,
    )


def request(
    spec: PolicySpec | None = None,
    *,
    incumbent: CacheConfig | None = None,
    reports: Sequence[Report] = (),
    trials: Sequence[Trial] = (),
    noise: float | None = 0.018,
    seed: int = 1,
) -> Request:
    """Make a request to a proposer."""
    spec = spec if spec is not None else policy()
    return Request(
        spec=spec,
        space=space_of(spec, frozenset(Knob)),
        incumbent=incumbent if incumbent is not None else made(),
        reports=tuple(reports),
        trials=tuple(trials),
        noise=noise,
        seed=seed,
        now=NOW,
    )


def with_strategy(asked: Request, strategy: Strategy) -> Request:
    """Ask the same of another strategy."""
    return replace(asked, spec=replace(asked.spec, strategy=strategy))


def _between(low: float, high: float) -> st.SearchStrategy[tuple[float, float, float]]:
    """Draw low <= value <= high, equal at times, and at a corner at times."""

    def ordered(drawn: tuple[float, float, float, int]) -> tuple[float, float, float]:
        a, b, share, corner = drawn
        bottom, top = min(a, b), max(a, b)
        value = (bottom, top, bottom + (top - bottom) * share)[corner]
        return bottom, min(max(value, bottom), top), top

    edge = st.floats(low, high)
    pair = st.tuples(edge, edge) | edge.map(lambda x: (x, x))
    return st.tuples(pair, st.floats(0, 1), st.integers(0, 2)).map(
        lambda drawn: ordered((*drawn[0], drawn[1], drawn[2]))
    )


@st.composite
def policies(draw: st.DrawFn) -> tuple[PolicySpec, CacheConfig]:
    """Draw a policy with some of the knobs, and an incumbent within its bounds."""
    only = draw(st.sets(st.sampled_from(Knob), min_size=1))
    step = st.floats(1.01, 64)
    ttl = [f"{round(x * 1000)}ms" for x in draw(_between(0.05, 4000))]
    ratio = draw(_between(0.001, 1))
    host = [f"{round(x)}" for x in draw(_between(1, 2**41))]
    names = draw(st.lists(st.sampled_from(EvictionPolicy), min_size=1, unique=True))
    count = [round(x) for x in draw(_between(1, 100))]
    spec = policy(
        Knobs(
            cache_ttl=DurationRange(min=Duration(ttl[0]), max=Duration(ttl[2]), largest_step=draw(step))
            if Knob.CACHE_TTL in only
            else None,
            eviction_ratio=RatioRange(min=ratio[0], max=ratio[2], largest_step=draw(step))
            if Knob.EVICTION_RATIO in only
            else None,
            tiers=TierKnobs(
                host_memory=QuantityRange(
                    min=Quantity(host[0]), max=Quantity(host[2]), largest_step=draw(step)
                )
                if Knob.HOST_MEMORY in only
                else None
            ),
            eviction_policy=PolicyChoices(choices=tuple(names)) if Knob.EVICTION_POLICY in only else None,
            store_threshold=CountRange(min=count[0], max=count[2], largest_step=draw(step))
            if Knob.STORE_THRESHOLD in only
            else None,
        ),
        strategy=draw(st.sampled_from(Strategy)),
        prices=Prices(
            memory=draw(st.sampled_from([0.0, 0.05, 1000.0])), eviction_pass=draw(st.sampled_from([0.0, 1.0]))
        ),
    )
    incumbent = CacheConfig(
        cache_ttl=Duration(ttl[1]) if Knob.CACHE_TTL in only else None,
        eviction_ratio=ratio[1] if Knob.EVICTION_RATIO in only else None,
        eviction_policy=names[0] if Knob.EVICTION_POLICY in only else None,
        store_threshold=count[1] if Knob.STORE_THRESHOLD in only else None,
    )
    if Knob.HOST_MEMORY in only:
        incumbent = replace(incumbent, tiers=replace(incumbent.tiers, host_memory=Quantity(host[1])))
    return spec, incumbent


@st.composite
def reuse_ages(draw: st.DrawFn) -> ReuseAges:
    """Draw reuse ages: empty, sparse, or more than is consistent."""
    counts = draw(st.lists(st.floats(0, 1e6), max_size=100))
    touches = draw(st.floats(0, 1e9) | st.just(sum(counts)))
    prompt_blocks = draw(st.floats(0, 1e9) | st.just(touches))
    return ReuseAges(
        touches=touches,
        prompt_blocks=prompt_blocks,
        seconds=draw(st.floats(0.1, 1e6)),
        counts=tuple(counts),
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[PolicySpec, CacheConfig, list[Trial]]:
    """Draw a policy, an incumbent and ended experiments of all kinds around it."""
    spec, incumbent = draw(policies())
    box = step_box(space_of(spec, frozenset(Knob)), incumbent)
    trials = []
    for n in range(1, draw(st.integers(0, 12)) + 1):
        wild = {knob: draw(st.floats(1e-6, 1e13)) for knob in Knob}
        trials.append(
            trial(
                n,
                box.config(wild),
                draw(st.sampled_from(sorted(ENDINGS))),
                incumbent=draw(st.sampled_from([incumbent, made()])),
                strategy=draw(st.sampled_from(Strategy)),
                effect=draw(st.none() | st.floats(-1, 1)),
                guardrails=draw(st.dictionaries(st.sampled_from(["ttft", "hitRate"]), st.floats(-1, 1))),
                ended_at=NOW - timedelta(hours=draw(st.integers(0, 48))),
                shifted=draw(st.booleans()),
            )
        )
    return spec, incumbent, trials
