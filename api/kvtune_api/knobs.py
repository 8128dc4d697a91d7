"""What can be tuned. A knob is born here, once, and travels unchanged to the engine.

`CacheConfig` is what an agent runs, what a push carries and what a verdict is about. `Knob` and `Point` are
the same knobs as numbers, for whoever searches over them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.plain_numbers import WRITTEN_AS_NUMBER
from kvtune_api.units import Duration, PositiveDuration, PositiveQuantity, Quantity

STORE_THRESHOLD_MAX = 100
"""Sightings are counted in a byte, and a block that comes back so often was worth storing long before."""

StoreThreshold = Annotated[int, Field(ge=1, le=STORE_THRESHOLD_MAX), WRITTEN_AS_NUMBER]


class EvictionPolicy(StrEnum):
    """Who decides which block of a full tier goes."""

    LRU = "LRU"
    """The block that was not asked for the longest."""

    FIFO = "FIFO"
    """The block that came first, asked for since or not."""

    SIEVE = "SIEVE"
    """First come, first out, but what was asked for since stays for another round."""

    S3FIFO = "S3FIFO"
    """What was asked for only once leaves early by a small queue of its own."""

    ARC = "ARC"
    """A balance of recency and frequency that follows what it let go in error."""

    TOKEN_LRU = "TokenLRU"
    """LRU weighted by the attention of a block's tokens; plain LRU where the engine gives none."""

    WORKLOAD_AWARE = "WorkloadAware"
    """The lowest priority by class of request: chance of reuse, place in the prompt, time to live."""

    REUSE_AWARE = "ReuseAware"
    """The fewest hits to expect for the time that it would be held, learned from the traffic itself."""


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

    eviction_ratio: Annotated[float, Field(gt=0, le=1), WRITTEN_AS_NUMBER] | None = None
    """Share of a tier's capacity that one eviction pass frees when the tier is full."""

    tiers: Tiers = Tiers()
    """Sizes of the tiers below the device."""

    eviction_policy: EvictionPolicy | None = None
    """Who decides which block of a full tier below the device goes. A change keeps every block."""

    store_threshold: StoreThreshold | None = None
    """A block is stored below the device only when it has been asked for that often; 1 stores every block."""


class Knob(StrEnum):
    """The knobs by their path in a configuration."""

    CACHE_TTL = "cacheTTL"
    EVICTION_RATIO = "evictionRatio"
    HOST_MEMORY = "tiers.hostMemory"
    EVICTION_POLICY = "evictionPolicy"
    STORE_THRESHOLD = "storeThreshold"


CHOSEN = frozenset({Knob.EVICTION_POLICY})
"""Knobs whose values are names: they have no order, and no value lies between two."""

_POLICIES = tuple(EvictionPolicy)

Point = Mapping[Knob, float]
"""A configuration as numbers: seconds, ratio, bytes, count; a name by its place among the names of its knob,
from 0. Knobs that are not set are absent."""


def point(config: CacheConfig) -> dict[Knob, float]:
    """The configuration as numbers."""
    values = {
        Knob.CACHE_TTL: config.cache_ttl.seconds if config.cache_ttl else None,
        Knob.EVICTION_RATIO: config.eviction_ratio,
        Knob.HOST_MEMORY: config.tiers.host_memory.bytes if config.tiers.host_memory else None,
        Knob.EVICTION_POLICY: None if config.eviction_policy is None else number_of(config.eviction_policy),
        Knob.STORE_THRESHOLD: config.store_threshold,
    }
    return {knob: float(value) for knob, value in values.items() if value is not None}


def number_of(policy: EvictionPolicy) -> float:
    """A policy as a point has it."""
    return float(_POLICIES.index(policy))


def policy_of(number: float) -> EvictionPolicy:
    """The policy that a point has as a number; the nearest one for a number that is none's."""
    return _POLICIES[min(max(round(number), 0), len(_POLICIES) - 1)]


def config(values: Point) -> CacheConfig:
    """The configuration of such numbers, rounded as `rounded` does."""
    exact = rounded(values)
    ttl, host = exact.get(Knob.CACHE_TTL), exact.get(Knob.HOST_MEMORY)
    policy, threshold = exact.get(Knob.EVICTION_POLICY), exact.get(Knob.STORE_THRESHOLD)
    return CacheConfig(
        cache_ttl=Duration.of(ttl) if ttl is not None else None,
        eviction_ratio=exact.get(Knob.EVICTION_RATIO),
        tiers=Tiers(host_memory=Quantity.of(host) if host is not None else None),
        eviction_policy=policy_of(policy) if policy is not None else None,
        store_threshold=int(threshold) if threshold is not None else None,
    )


def rounded(values: Point) -> dict[Knob, float]:
    """The same point on the grid that is written.

    0.1 s (1 s from 10 s up), 0.001, 1 MiB (at least 1), names, whole numbers from 1 up.
    """
    return {knob: _on_grid(knob, value) for knob, value in values.items()}


def _on_grid(knob: Knob, value: float) -> float:
    match knob:
        case Knob.CACHE_TTL:
            return float(round(value)) if value >= 10 else max(0.1, round(value, 1))
        case Knob.EVICTION_RATIO:
            return max(0.001, round(value, 3))
        case Knob.HOST_MEMORY:
            return float(max(1, round(value / 2**20)) * 2**20)
        case Knob.EVICTION_POLICY:
            return number_of(policy_of(value))
        case Knob.STORE_THRESHOLD:
            return float(min(max(1, round(value)), STORE_THRESHOLD_MAX))


def written(knob: Knob, value: float) -> str:
    """A knob's value as a user writes it."""
    match knob:
        case Knob.CACHE_TTL:
            return str(Duration.of(value))
        case Knob.EVICTION_RATIO:
            return f"{value:.3g}"
        case Knob.HOST_MEMORY:
            return str(Quantity.of(value))
        case Knob.EVICTION_POLICY:
            return str(policy_of(value))
        case Knob.STORE_THRESHOLD:
            return str(round(value))
