"""How experiments are run: the part of a policy that holds the statistical design's numbers."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import user_written
from kvtune_api.ranges import Bounds
from kvtune_api.rules import Rule, quoted, ruled
from kvtune_api.scalars import NUMBER
from kvtune_api.units import Duration, PositiveDuration

Points = Annotated[float, Field(ge=0, le=1), NUMBER]

LEASE_MIN = Duration("3s")
"""Of wall time: three ticks of a control plane at its fastest."""

LEASE_MAX = Duration("10m")
"""Of wall time: so long a candidate may outlive a control plane that is gone. Agents take a day at most."""


class OnGuardrail(StrEnum):
    """What follows when a guardrail trips."""

    ROLLBACK = "Rollback"
    ROLLBACK_AND_PAUSE = "RollbackAndPause"


@user_written
class Margins:
    """How much worse a guardrail may look and still count as not worse, as a share (0.02 = 2 points)."""

    ttft: Points | None = None
    """Share of requests within the TTFT limit. Default: one sd of its noise, between 0.02 and 0.05."""

    hit_rate: Points | None = None
    """Hit rate. Default: one sd of its noise, between 0.02 and 0.05."""

    stall: Points | None = None
    """Share of stalled samples. Default: one sd of its noise, between 0.02 and 0.05."""


@user_written
@ruled(
    Rule(
        holds="!has(self.minPairs) || !has(self.maxPairs) || self.minPairs <= self.maxPairs",
        message="'minPairs %d is greater than maxPairs %d'.format([self.minPairs, self.maxPairs])",
    ),
    Rule(
        holds=f"!has(self.leaseDuration) || !{Duration.comparable('self.leaseDuration')} || "
        f"!({Duration.less('self.leaseDuration', quoted(LEASE_MIN))})",
        message=f"'leaseDuration ' + self.leaseDuration + ' is less than {LEASE_MIN}'",
    ),
    Rule(
        holds=f"!has(self.leaseDuration) || !{Duration.comparable('self.leaseDuration')} || "
        f"!({Duration.less(quoted(LEASE_MAX), 'self.leaseDuration')})",
        message=f"'leaseDuration ' + self.leaseDuration + ' is more than {LEASE_MAX}'",
    ),
)
class ExperimentSettings:
    """How experiments are run. The defaults are those of the statistical design."""

    alpha: Annotated[float, Field(ge=0.001, le=0.2), NUMBER] = 0.05
    """Highest probability with which an experiment declares a candidate better that is not."""

    window: Bounds = Bounds(min=Duration("120s"), max=Duration("10m"))
    """Bounds of the measuring window of an epoch."""

    washout: Bounds = Bounds(min=Duration("20s"), max=Duration("30m"))
    """Bounds of the time after a switch that is not measured."""

    pairs_at_once: Annotated[int, Field(ge=1, le=25), NUMBER] = 8
    """At most this many pairs take part; all others keep the incumbent. The limit keeps ledgers small."""

    min_pairs: Annotated[int, Field(ge=5, le=1000), NUMBER] = 8
    """No promotion before this many Deltas (pairs times blocks)."""

    max_pairs: Annotated[int, Field(ge=5, le=10_000), NUMBER] = 24
    """Undecided after this many Deltas: Inconclusive."""

    min_requests: Annotated[int, Field(ge=1, le=10_000_000), NUMBER] = 500
    """The window is made long enough for this many requests per arm and epoch."""

    max_duration: PositiveDuration = Duration("24h")
    """No experiment starts that is estimated to take longer."""

    no_data_timeout: PositiveDuration = Duration("10m")
    """Without usable measurements for this long an experiment ends as Inconclusive(NoData)."""

    margins: Margins = Margins()
    """Non-inferiority margins of the guardrails."""

    min_effect: Annotated[float, Field(ge=0, le=1), NUMBER] = 0.0
    """Smallest gain in the objective that is worth a change (0.01 = 1 point)."""

    detectable_effect: Annotated[float, Field(gt=0, le=1), NUMBER] = 0.03
    """Gain for which the power is stated where the proposal predicts none."""

    cooldown: Duration = Duration("5m")
    """Rest after an experiment before the next."""

    on_guardrail: OnGuardrail = OnGuardrail.ROLLBACK
    """What follows when the circuit breaker trips."""

    watch_windows: Annotated[int, Field(ge=1, le=100), NUMBER] = 2
    """Windows for which a promotion is watched against the holdback."""

    approval_timeout: PositiveDuration = Duration("24h")
    """How long a winner waits for approval (mode Recommend)."""

    lease_duration: PositiveDuration = Duration("30s")
    """Wall time after which an agent gives a candidate up unless the control plane renews it, 3s to 10m."""

    @model_validator(mode="after")
    def _pairs_in_order(self) -> "ExperimentSettings":
        if self.min_pairs > self.max_pairs:
            raise ValueError(f"minPairs {self.min_pairs} is greater than maxPairs {self.max_pairs}")
        if self.lease_duration.nanoseconds < LEASE_MIN.nanoseconds:
            raise ValueError(f"leaseDuration {self.lease_duration} is less than {LEASE_MIN}")
        if self.lease_duration.nanoseconds > LEASE_MAX.nanoseconds:
            raise ValueError(f"leaseDuration {self.lease_duration} is more than {LEASE_MAX}")
        return self
