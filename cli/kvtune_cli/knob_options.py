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
    """The configuration that the options give, a policy by its name in any case.

    Raises `SpecError` naming options.
    """
    from kvtune_api.codec import parse
    from kvtune_api.errors import Problem, SpecError
    from kvtune_api.knobs import CacheConfig

    knobs = {
        "cacheTTL": cache_ttl,
        "evictionRatio": eviction_ratio,
        "tiers": {"hostMemory": host_memory},
        "evictionPolicy": None if eviction_policy is None else _policy_name(eviction_policy),
        "storeThreshold": store_threshold,
    }
    try:
        return parse(CacheConfig, knobs)
    except SpecError as error:
        named = (Problem(OPTIONS.get(p.path, p.path), p.message) for p in error.problems)
        raise SpecError(*named) from error


def _policy_name(text: str) -> str:
    """The name of a policy that is meant; the text itself where none is."""
    from kvtune_api.knobs import EvictionPolicy

    return {policy.lower(): str(policy) for policy in EvictionPolicy}.get(text.lower(), text)
