"""What a valid policy may still surprise its author with. Warnings, never refusals. Pure."""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil

from kvtune_api.errors import Problem
from kvtune_api.knobs import EvictionPolicy
from kvtune_api.policy import KVCachePolicy, Mode, PolicySpec
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import CountRange, DurationRange, PolicyChoices, QuantityRange, RatioRange
from kvtune_cache.serving import TTFT_BOUNDS_SECONDS

SMALL_STEP = 1.3
"""Below this factor an experiment's effect is mostly below one sd of its noise (experiments.md 9)."""

_Range = DurationRange | RatioRange | QuantityRange | CountRange


def advice(policy: KVCachePolicy) -> tuple[Problem, ...]:
    """Everything worth knowing before this policy runs, with the fields' paths."""
    spec = policy.spec
    return (*_targets(spec), *_prices(spec), *_knobs(spec.knobs), *_experiment(spec))


def _targets(spec: PolicySpec) -> Iterator[Problem]:
    ttft = spec.targets.ttft
    if ttft is None:
        yield Problem(
            "spec.targets", "no ttft target: nothing guards the latency, and the breaker has no limit"
        )
        return
    limit = ttft.limit.seconds
    if limit in TTFT_BOUNDS_SECONDS:
        return
    path, below = "spec.targets.ttft.limit", [bound for bound in TTFT_BOUNDS_SECONDS if bound < limit]
    if not below:
        text = f"{ttft.limit} is below vLLM's smallest histogram boundary {_ms(TTFT_BOUNDS_SECONDS[0])}"
        yield Problem(path, f"{text}: the share of requests within it cannot be measured")
        return
    near = [bound for bounds in pairwise((*TTFT_BOUNDS_SECONDS, limit * 2)) for bound in bounds]
    usable = sorted(
        {*below[-1:], *(bound for bound in near if bound > limit and bound in TTFT_BOUNDS_SECONDS)}
    )[:2]
    names = " or ".join(_ms(bound) for bound in usable)
    text = f"{ttft.limit} lies between boundaries of vLLM's TTFT histogram"
    yield Problem(
        path, f"{text}: experiments use {_ms(below[-1])}, and whether it is met may stay unknown; use {names}"
    )


def _prices(spec: PolicySpec) -> Iterator[Problem]:
    prices, path = spec.objective.prices, "spec.objective.prices"
    if not (prices.memory or prices.eviction_pass or prices.bytes_down):
        yield Problem(
            path, "all prices are 0: the longest TTL, the largest tier and the smallest ratio always win"
        )
    elif not prices.memory and spec.knobs.tiers.host_memory is not None:
        yield Problem(f"{path}.memory", "is 0: tiers.hostMemory will grow to its max")
    if prices.memory and spec.knobs.tiers.host_memory is None:
        yield Problem(f"{path}.memory", "has no effect: tiers.hostMemory is not tuned")


def _knobs(knobs: Knobs) -> Iterator[Problem]:
    for name, knob in _ranges(knobs):
        path = f"spec.knobs.{name}"
        if knob.largest_step < SMALL_STEP:
            text = (
                f"{knob.largest_step:g} is small: steps below {SMALL_STEP:g} are mostly too small to be seen"
            )
            yield Problem(f"{path}.largestStep", text)
        if knob.min == knob.max:
            yield Problem(path, f"min and max are both {knob.min}: nothing to tune")
    yield from _policies(knobs.eviction_policy)


def _policies(asked: PolicyChoices | None) -> Iterator[Problem]:
    if asked is None:
        return
    path = "spec.knobs.evictionPolicy"
    if len(asked.choices) == 1:
        yield Problem(path, f"{asked.choices[0]} is the only choice: nothing to tune")
    if EvictionPolicy.TOKEN_LRU in asked.choices:
        yield Problem(path, "TokenLRU is plain LRU on engines that give no attention entropy")


def _ranges(knobs: Knobs) -> Iterator[tuple[str, _Range]]:
    named: tuple[tuple[str, _Range | None], ...] = (
        ("cacheTTL", knobs.cache_ttl),
        ("evictionRatio", knobs.eviction_ratio),
        ("tiers.hostMemory", knobs.tiers.host_memory),
        ("storeThreshold", knobs.store_threshold),
    )
    for name, knob in named:
        if knob is not None:
            yield name, knob


def _experiment(spec: PolicySpec) -> Iterator[Problem]:
    settings, path = spec.experiment, "spec.experiment"
    washout, window = settings.washout.min.seconds, settings.window.min.seconds
    blocks = ceil(settings.min_pairs / settings.pairs_at_once)
    shortest = 2 * blocks * (washout + window) + washout + 2 * window
    if spec.mode is not Mode.OBSERVE and shortest > settings.max_duration.seconds:
        text = f"{settings.max_duration} is less than the shortest experiment takes ({shortest:.0f}s)"
        yield Problem(f"{path}.maxDuration", text)
    if settings.max_pairs < 12:
        text = f"{settings.max_pairs} is few: only effects well above one sd are found"
        yield Problem(f"{path}.maxPairs", text)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if seconds < 1 else f"{seconds:g}s"
