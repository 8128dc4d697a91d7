"""What can be tuned. A knob is born here, once, and travels unchanged to the engine.

`CacheConfig` is what an agent runs, what a push carries and what a verdict is about. `KNOBS` is the same
knobs as numbers, for whoever searches over them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.units import Duration, PositiveDuration, PositiveQuantity, Quantity


@frozen
class Tiers:
    """Sizes of the tiers below the device."""

    host_memory: PositiveQuantity | None = None
    """Host memory given to KV blocks on each agent's node. Priced as configured, not as occupied."""


@frozen
class CacheConfig:
    """One configuration of a cache agent. A knob that is not set is left to the engine."""

    cache_ttl: PositiveDuration | None = None
    """How long a block below the device may stay idle before it counts as a miss and is freed."""

    eviction_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of a tier's capacity that one eviction pass frees when the tier is full."""

    tiers: Tiers = Tiers()
    """Sizes of the tiers below the device."""


class Knob(StrEnum):
    """The knobs by their path in a configuration."""

    CACHE_TTL = "cacheTTL"
    EVICTION_RATIO = "evictionRatio"
    HOST_MEMORY = "tiers.hostMemory"


Point = Mapping[Knob, float]
"""A configuration as numbers in base units: seconds, ratio, bytes. Knobs that are not set are absent."""


def point(config: CacheConfig) -> dict[Knob, float]:
    """The configuration as numbers in base units."""
    values = {
        Knob.CACHE_TTL: config.cache_ttl.seconds if config.cache_ttl else None,
        Knob.EVICTION_RATIO: config.eviction_ratio,
        Knob.HOST_MEMORY: config.tiers.host_memory.bytes if config.tiers.host_memory else None,
    }
    return {knob: value for knob, value in values.items() if value is not None}


def config(values: Point) -> CacheConfig:
    """The configuration of numbers in base units, rounded as `rounded` does."""
    exact = rounded(values)
    ttl, host = exact.get(Knob.CACHE_TTL), exact.get(Knob.HOST_MEMORY)
    return CacheConfig(
        cache_ttl=Duration.of(ttl) if ttl is not None else None,
        eviction_ratio=exact.get(Knob.EVICTION_RATIO),
        tiers=Tiers(host_memory=Quantity.of(host) if host is not None else None),
    )


def rounded(values: Point) -> dict[Knob, float]:
    """The same point on the grid that is written: 0.1 s (1 s from 10 s up), 0.001, 1 MiB (at least 1)."""
    return {knob: _on_grid(knob, value) for knob, value in values.items()}


def _on_grid(knob: Knob, value: float) -> float:
    match knob:
        case Knob.CACHE_TTL:
            return float(round(value)) if value >= 10 else max(0.1, round(value, 1))
        case Knob.EVICTION_RATIO:
            return max(0.001, round(value, 3))
        case Knob.HOST_MEMORY:
            return float(max(1, round(value / 2**20)) * 2**20)


def written(knob: Knob, value: float) -> str:
    """A knob's value as a user writes it."""
    match knob:
        case Knob.CACHE_TTL:
            return str(Duration.of(value))
        case Knob.EVICTION_RATIO:
            return f"{value:.3g}"
        case Knob.HOST_MEMORY:
            return str(Quantity.of(value))
