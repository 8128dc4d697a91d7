"""Which knobs a policy lets be tuned, and within which bounds: `spec.knobs`."""

from pydantic import model_validator

from kvtune_api.codec import user_written
from kvtune_api.ranges import CountRange, DurationRange, PolicyChoices, QuantityRange, RatioRange
from kvtune_api.rules import Rule, ruled

ONE_KNOB = (
    "at least one knob is needed: cacheTTL, evictionRatio, tiers.hostMemory, evictionPolicy or storeThreshold"
)


@user_written
class TierKnobs:
    """Knobs of the tiers below the device."""

    host_memory: QuantityRange | None = None
    """Host memory for KV blocks on each agent's node."""


@user_written
@ruled(
    Rule(
        holds="has(self.cacheTTL) || has(self.evictionRatio) || self.?tiers.?hostMemory.hasValue()"
        " || has(self.evictionPolicy) || has(self.storeThreshold)",
        message=f"'{ONE_KNOB}'",
    )
)
class Knobs:
    """What may be tuned. A knob that is not named is left as the agents have it."""

    cache_ttl: DurationRange | None = None
    """How long an idle block is kept below the device."""

    eviction_ratio: RatioRange | None = None
    """Share of a full tier that one eviction pass frees."""

    tiers: TierKnobs = TierKnobs()
    """Sizes of tiers."""

    eviction_policy: PolicyChoices | None = None
    """Who decides which block of a full tier goes. A change keeps every block."""

    store_threshold: CountRange | None = None
    """How often a block must have been asked for before it is stored below the device."""

    @model_validator(mode="after")
    def _one_knob(self) -> "Knobs":
        named = (self.cache_ttl, self.eviction_ratio, self.eviction_policy, self.store_threshold)
        if self.tiers.host_memory is None and all(knob is None for knob in named):
            raise ValueError(ONE_KNOB)
        return self
