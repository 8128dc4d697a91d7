"""When agents give an eviction policy up for plain LRU, and when they go back: `spec.evictionFallback`."""

from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import user_written
from kvtune_api.rules import Rule, quoted, ruled
from kvtune_api.scalars import NUMBER
from kvtune_api.units import Duration, PositiveDuration

OVER_MIN = Duration("2m")
"""Agents look every 5 s, and know a rate only after 15 looks with traffic."""

OVER_MAX = Duration("1h")
"""Agents know of uses no older than that."""


@user_written
@ruled(
    Rule(
        holds=f"!has(self.over) || !{Duration.comparable('self.over')} || "
        f"!({Duration.less('self.over', quoted(OVER_MIN))})",
        message=f"'over ' + self.over + ' is less than {OVER_MIN}'",
    ),
    Rule(
        holds=f"!has(self.over) || !{Duration.comparable('self.over')} || "
        f"!({Duration.less(quoted(OVER_MAX), 'self.over')})",
        message=f"'over ' + self.over + ' is more than {OVER_MAX}'",
    ),
)
class EvictionFallback:
    """When an agent runs LRU in place of its eviction policy. Every block stays, either way."""

    least_reuse_rate: Annotated[float, Field(ge=0, lt=1), NUMBER] = 0.4
    """LRU runs when a smaller share of the block references were reuses; 0: only when the policy fails."""

    over: PositiveDuration = Duration("5m")
    """How long the share must be so small, 2m to 1h of the agent's clock."""

    return_after: PositiveDuration | None = None
    """Return to the policy after so long without a cause. Without it only `kvtune restore` does."""

    @model_validator(mode="after")
    def _over_within(self) -> "EvictionFallback":
        if self.over.nanoseconds < OVER_MIN.nanoseconds:
            raise ValueError(f"over {self.over} is less than {OVER_MIN}")
        if self.over.nanoseconds > OVER_MAX.nanoseconds:
            raise ValueError(f"over {self.over} is more than {OVER_MAX}")
        return self
