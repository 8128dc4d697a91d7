"""What the control plane and the agents say to each other. Unknown fields are refused on both sides.

All times are seconds of the engine's clock (unix seconds unless a demo scales them); leases alone count
monotonic wall seconds, because a lease must also run out when a clock is wrong.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import frozen
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.plain_numbers import WRITTEN_AS_NUMBER

GRID_SECONDS = 5
"""Agents keep their counters at every multiple of this; window bounds lie on it."""

LARGEST_COUNT = 1e18
"""No counter of an engine comes near; sums over a pool stay finite."""

LARGEST_INTEGER = 2**53
"""The largest integer that every JSON reader takes exactly."""

Count = Annotated[float, Field(ge=0, le=LARGEST_COUNT)]
Sequence = Annotated[int, Field(ge=0, le=LARGEST_INTEGER), WRITTEN_AS_NUMBER]
Moment = Annotated[float, Field(ge=-1e12, le=1e12)]
"""Engine seconds."""


class Role(StrEnum):
    """Why an agent runs what it runs."""

    CANDIDATE = "candidate"
    INCUMBENT = "incumbent"


@frozen
class FallbackRules:
    """When an agent runs LRU in place of its eviction policy."""

    least_reuse_rate: Annotated[float, Field(ge=0, lt=1)]
    """When a smaller share of the block references are reuses; 0: only when the policy fails."""

    over_seconds: Annotated[float, Field(gt=0, le=3600)]
    return_after_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """It returns after so long without a cause; absent: only on command."""


@frozen
class Push:
    """One configuration for one agent: the body of `PUT /v1/config`."""

    role: Role
    """candidate (under a lease) or incumbent (kept until replaced)."""

    generation: Sequence
    """Number of this assignment; grows with every change under one token and policy."""

    token: Sequence
    """Fencing token of the control plane that sends this; a lower one than the agent has seen is refused."""

    policy_uid: Annotated[str, Field(min_length=1, max_length=64)]
    """UID of the policy on whose behalf this is sent."""

    config: CacheConfig
    """What to run."""

    lease_seconds: Annotated[float, Field(gt=0, le=86_400), WRITTEN_AS_NUMBER] | None = None
    """Wall seconds after which a candidate returns to the incumbent by itself unless pushed again."""

    fallback_rules: FallbackRules | None = None
    """Absent: the agent's own."""

    @model_validator(mode="after")
    def _lease_only_for_candidates(self) -> "Push":
        if self.role is Role.CANDIDATE and self.lease_seconds is None:
            raise ValueError("leaseSeconds: is required for role candidate")
        if self.role is Role.INCUMBENT and self.lease_seconds is not None:
            raise ValueError("leaseSeconds: is not allowed for role incumbent")
        return self


@frozen
class Running:
    """What an agent runs now."""

    role: Role
    config: CacheConfig
    incumbent: CacheConfig
    """What it returns to when a candidate's lease ends (equal to `config` for role incumbent)."""

    generation: Sequence = 0
    token: Sequence = 0
    policy_uid: str = ""
    lease_remaining_seconds: Annotated[float, Field(le=1e9)] | None = None
    """Wall seconds left of a candidate's lease."""

    lease_lapses: Sequence = 0
    """How many candidate leases ran out at this agent since it started."""

    fallback_rules: FallbackRules | None = None
    """As they were pushed; absent: its own."""


@frozen
class Histogram:
    """Cumulative counts by upper bound; the last count is that of +Inf (one more count than bounds)."""

    bounds: tuple[float, ...]
    counts: tuple[Count, ...]
    sum: Count

    @model_validator(mode="after")
    def _shape(self) -> "Histogram":
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"counts: {len(self.counts)} values for {len(self.bounds)} bounds and +Inf")
        if list(self.bounds) != sorted(set(self.bounds)):
            raise ValueError("bounds: must grow")
        if list(self.counts) != sorted(self.counts):
            raise ValueError("counts: must not fall (they are cumulative)")
        return self


@frozen
class Counters:
    """An engine's counters at one moment; None is a counter that this engine does not keep."""

    at: Moment
    """The moment, engine seconds."""

    started_at: Moment | None = None
    """When the counting process started, engine seconds; another value means that the counters began anew.

    None: not known. Then a counter that falls has begun anew.
    """

    requests: Count | None = None
    prompt_tokens: Count | None = None
    hit_tokens: Count | None = None
    """Prompt tokens served from the device and the tiers below it."""

    eviction_passes: Count | None = None
    bytes_down: Count | None = None
    """Bytes written to the tiers below the device."""

    errors: Count | None = None
    new_session_roots: Count | None = None
    ttft: Histogram | None = None
    """Time to first token, seconds."""


@frozen
class ReuseAges:
    """How old blocks were when they were touched again, whatever the configuration (experiments.md 10)."""

    touches: Count
    """Blocks touched, first touches included."""

    prompt_blocks: Count
    seconds: Annotated[float, Field(gt=0)]
    """Length of the time over which this was counted."""

    first_edge_seconds: Annotated[float, Field(gt=0)] = 1.0
    bins_per_octave: Annotated[int, Field(ge=1, le=64)] = 8
    counts: tuple[Count, ...]
    """Re-touches by age: bin 0 is below the first edge, bin i ends at first edge * 2**(i / octave bins)."""


@frozen
class Geometry:
    """The engine's block sizes."""

    block_tokens: Annotated[int, Field(ge=1)]
    block_bytes: Annotated[int, Field(ge=1)]
    device_blocks: Annotated[int, Field(ge=0)]


@frozen
class KnobSupport:
    """One knob that an engine has, and whether it changes without a restart."""

    knob: Knob
    live: bool


@frozen
class Fallback:
    """Why an engine evicts by plain LRU in place of the policy that it was asked to run."""

    reason: Annotated[str, Field(max_length=64)]
    """`LowReuse` or `PolicyFailed`."""

    message: Annotated[str, Field(max_length=512)]
    """The same with numbers, or the error."""

    since: Moment


@frozen
class Load:
    """Figures for matching agents into pairs, over the last minutes; None: too little traffic to say."""

    span_seconds: Moment
    request_rate: Count | None = None
    hit_rate: Annotated[float, Field(ge=0, le=1)] | None = None


@frozen
class Report:
    """The answer of `GET /v1/report`: all that the control plane asks of an agent."""

    agent: Annotated[str, Field(min_length=1, max_length=253)]
    version: str
    engine: str
    clock: Moment
    """The agent's engine clock when it answered."""

    started_at: Moment
    running: Running
    supports: tuple[KnobSupport, ...]
    geometry: Geometry | None = None
    load: Load
    counters: Counters | None = None
    """The counters at the time asked for (`at`), else at the newest closed grid time."""

    missing: str | None = None
    """Why `counters` is absent: a `Missing` reason."""

    reuse: ReuseAges | None = None
    fallback: Fallback | None = None
    """Absent while the engine runs the eviction policy of `running`."""


@frozen
class Refusal:
    """The body of a 4xx answer: a machine reason, and a sentence with field, value and limit."""

    reason: str
    message: str
