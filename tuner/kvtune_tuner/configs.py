"""Compare configurations and change single knobs. Called by the proposers, the deny-list and plan. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, Point
from kvtune_api.wire import Report

_SAME = 1e-9
"""Relative difference below which two values are one: what writing and reading may change."""


RECENCY = (None, EvictionPolicy.LRU, EvictionPolicy.FIFO)
"""Policies that know no more than when a block came or was asked for; None: an engine that tells of none."""


def evicts_by(config: CacheConfig, reports: Sequence[Report]) -> EvictionPolicy | None:
    """Tell the eviction policy of a configuration: its own, else that which agents say they run."""
    if config.eviction_policy is not None:
        return config.eviction_policy
    told = (report.running.config.eviction_policy for report in reports)
    return next((policy for policy in told if policy is not None), None)


def same_value(a: float, b: float) -> bool:
    """Say whether two values of a knob are one."""
    return math.isclose(a, b, rel_tol=_SAME)


def distance(a: CacheConfig, b: CacheConfig) -> dict[Knob, float]:
    """Give |ln(a / b)| per knob that either sets; infinity where only one of them does, or two names."""
    left, right = knobs.point(a), knobs.point(b)
    return {
        knob: _apart(knob, left[knob], right[knob]) if knob in left and knob in right else math.inf
        for knob in Knob
        if knob in left or knob in right
    }


def _apart(knob: Knob, a: float, b: float) -> float:
    if knob in knobs.CHOSEN:
        return 0.0 if a == b else math.inf
    return abs(math.log(a / b))


def same_config(a: CacheConfig, b: CacheConfig) -> bool:
    """Say whether two configurations are one, however they are written (`60m` is `1h`)."""
    left, right = knobs.point(a), knobs.point(b)
    return left.keys() == right.keys() and all(same_value(left[knob], right[knob]) for knob in left)


def with_values(config: CacheConfig, values: Mapping[Knob, float]) -> CacheConfig:
    """Set some knobs of a configuration, on the written grid; all others stay as they are written."""
    new = knobs.config(values)
    for knob in values:
        config = with_knob(config, knob, new)
    return config


def steps_written(old: CacheConfig, new: CacheConfig) -> str:
    """Write what changes from one configuration to the other: `cacheTTL 30s -> 120s, ...`."""
    before, after = knobs.point(old), knobs.point(new)
    return ", ".join(
        f"{knob} {_shown(knob, before)} -> {_shown(knob, after)}"
        for knob in Knob
        if before.get(knob) != after.get(knob)
    )


def _shown(knob: Knob, values: Point) -> str:
    return knobs.written(knob, values[knob]) if knob in values else "unset"


def with_knob(config: CacheConfig, knob: Knob, source: CacheConfig) -> CacheConfig:
    """Take one knob from another configuration, as it is written there."""
    match knob:
        case Knob.CACHE_TTL:
            return replace(config, cache_ttl=source.cache_ttl)
        case Knob.EVICTION_RATIO:
            return replace(config, eviction_ratio=source.eviction_ratio)
        case Knob.HOST_MEMORY:
            return replace(config, tiers=replace(config.tiers, host_memory=source.tiers.host_memory))
        case Knob.EVICTION_POLICY:
            return replace(config, eviction_policy=source.eviction_policy)
        case Knob.STORE_THRESHOLD:
            return replace(config, store_threshold=source.store_threshold)
