"""Knobs as options of a command: one configuration, and errors that name the option as it was typed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtune_api.knobs import CacheConfig

OPTIONS = {
    "cacheTTL": "--cache-ttl",
    "evictionRatio": "--eviction-ratio",
    "tiers.hostMemory": "--host-memory",
    "evictionPolicy": "--eviction-policy",
    "storeThreshold": "--store-threshold",
}
"""The option of each knob."""


def config_from_options(
    cache_ttl: str | None,
    eviction_ratio: float | None,
    host_memory: str | None,
    eviction_policy: str | None = None,
    store_threshold: int | None = None,
) -> "CacheConfig":
    """The configuration that the options give; raise `SpecError` naming options."""
    from kvtune_api.codec import parse
    from kvtune_api.errors import Problem, SpecError
    from kvtune_api.knobs import CacheConfig

    knobs = {
        "cacheTTL": cache_ttl,
        "evictionRatio": eviction_ratio,
        "tiers": {"hostMemory": host_memory},
        "evictionPolicy": eviction_policy,
        "storeThreshold": store_threshold,
    }
    try:
        return parse(CacheConfig, knobs)
    except SpecError as error:
        named = (Problem(OPTIONS.get(p.path, p.path), p.message) for p in error.problems)
        raise SpecError(*named) from error
