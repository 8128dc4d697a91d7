"""Between words of the wire and the model's: seconds, ratio, whole blocks, a policy by its name, rules."""

from collections.abc import Mapping

from kvtune_api.errors import Problem, SpecError
from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, point, policy_of
from kvtune_api.wire import FallbackRules, Geometry
from kvtune_cache.constants import EngineConstants
from kvtune_cache.guard import GuardRules
from kvtune_cache.tiers import CacheSettings

OWN = CacheConfig(eviction_policy=EvictionPolicy.REUSE_AWARE, store_threshold=1)
"""What the replay engine does of itself: what stays is what is worth its room, and all is stored at once."""


def own_values(config: CacheConfig) -> Mapping[Knob, float]:
    """The start configuration, which stands in for unset knobs; raises `SpecError` naming what it lacks."""
    values = {**point(OWN), **point(config)}
    unset = [knob for knob in Knob if knob not in values]
    if unset:
        raise SpecError(
            *(Problem(f"config.{knob}", "is required to start the replay engine") for knob in unset)
        )
    return values


def geometry_of(constants: EngineConstants) -> Geometry:
    """The block sizes of an engine."""
    return Geometry(
        block_tokens=constants.block_tokens,
        block_bytes=constants.block_bytes,
        device_blocks=constants.device_blocks,
    )


def guard_rules(rules: FallbackRules | None, own: GuardRules) -> GuardRules:
    """The rules of a guard; without any its own."""
    if rules is None:
        return own
    return GuardRules(
        least_reuse_rate=rules.least_reuse_rate or None,
        window_seconds=rules.over_seconds,
        quiet_seconds=rules.return_after_seconds,
    )


def settings_of(values: Mapping[Knob, float], constants: EngineConstants) -> CacheSettings:
    """The model's settings; raises `SpecError` with both numbers for a host tier of less than one block."""
    host_bytes = values[Knob.HOST_MEMORY]
    if host_bytes < constants.block_bytes:
        message = f"{host_bytes:.0f} bytes is less than one block of {constants.block_bytes} bytes"
        raise SpecError(Problem(f"config.{Knob.HOST_MEMORY}", message))
    return CacheSettings(
        ttl_seconds=values[Knob.CACHE_TTL],
        eviction_ratio=values[Knob.EVICTION_RATIO],
        host_blocks=int(host_bytes // constants.block_bytes),
        policy=str(policy_of(values[Knob.EVICTION_POLICY])),
        store_threshold=int(values[Knob.STORE_THRESHOLD]),
    )
