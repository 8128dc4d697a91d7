"""How a simulated agent's figures follow from its configuration: named surfaces for the fake pool."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.wire import ReuseAges


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What an agent does under one configuration, without noise."""

    hit_rate: float
    share: float = 0.8
    """Share of requests within the pool's TTFT limit."""

    passes_per_minute: float = 0.0
    bytes_down_per_second: float = 0.0


Surface = Callable[[CacheConfig], Response]


def flat(hit_rate: float = 0.5, share: float = 0.8) -> Surface:
    """No configuration is better than another: the null hypothesis."""
    response = Response(hit_rate=hit_rate, share=share)
    return lambda config: response


def stepwise(special: CacheConfig, *, gain: float, share_gain: float = 0.0, hit_rate: float = 0.5) -> Surface:
    """One configuration is better (worse when negative) than all others by `gain` of hit rate."""
    usual, better = Response(hit_rate=hit_rate), Response(hit_rate=hit_rate + gain, share=0.8 + share_gain)
    return lambda config: better if config == special else usual


def per_octave(
    origin: CacheConfig, gains: Mapping[Knob, float], *, hit_rate: float = 0.5, share: float = 0.8
) -> Surface:
    """Each doubling of a knob from `origin` adds its gain of hit rate (in .2 to .8), half to the share."""
    start = point(origin)

    def response(config: CacheConfig) -> Response:
        gained = sum(
            gains.get(knob, 0.0) * math.log2(value / start[knob])
            for knob, value in point(config).items()
            if knob in start
        )
        return Response(
            hit_rate=min(0.8, max(0.2, hit_rate + gained)),
            share=min(0.85, max(0.25, share + gained / 2)),
        )

    return response


def saturating(config: CacheConfig) -> Response:
    """More is better with falling returns, and passes cost: with prices the best lies inside the bounds."""
    values = point(config)
    host_gib = values.get(Knob.HOST_MEMORY, 64 * 2**30) / 2**30
    ttl, ratio = values.get(Knob.CACHE_TTL, 60.0), values.get(Knob.EVICTION_RATIO, 0.2)
    kept = (1 - math.exp(-host_gib * (1 - ratio / 2) / 150)) * (1 - math.exp(-ttl / 120))
    return Response(
        hit_rate=0.2 + 0.6 * kept,
        share=0.3 + 0.55 * kept,
        passes_per_minute=2.0 * (1 - kept) / ratio / max(1.0, host_gib / 16),
    )


def exponential_reuse(
    mean_age_seconds: float = 90.0, *, seconds: float = 600.0, rate: float = 200.0
) -> ReuseAges:
    """Re-touches of 80 % of the touches, their ages exponential, in the agents' bins up to an hour."""
    edges = [2 ** (i / 8) for i in range(96)]
    below = [1 - math.exp(-edge / mean_age_seconds) for edge in edges]
    again = 0.8 * rate * seconds
    counts = [again * (high - low) for low, high in zip([0.0, *below], below, strict=False)]
    return ReuseAges(
        touches=rate * seconds, prompt_blocks=rate * seconds, seconds=seconds, counts=tuple(counts)
    )
