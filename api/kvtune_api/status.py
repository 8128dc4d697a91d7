"""What the control plane answers in a policy's status. Written by it alone, read by all.

Everything that a restarted control plane needs is here or in the running experiment: it keeps nothing else.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Phase, Reason
from kvtune_api.packing import Packed

TRIALS_KEPT = 300


class Truth(StrEnum):
    """Kubernetes' three-valued condition status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@frozen
class Condition:
    """One aspect of the policy's state, as Kubernetes writes conditions."""

    type: ConditionType
    status: Truth
    reason: Reason
    message: Annotated[str, Field(max_length=1024)]
    """What is so, with numbers."""

    last_transition_time: datetime
    """Since when the status is what it is."""

    observed_generation: int = 0
    """The generation of the spec that it speaks of."""


class Met(StrEnum):
    """Whether a target is met, as far as the measurement can say."""

    MET = "Met"
    VIOLATED = "Violated"
    UNKNOWN = "Unknown"


@frozen
class Sli:
    """One service level indicator over the last span, against its target."""

    name: str
    """`ttft` (share of requests within the limit) or `hitRate`."""

    value: float | None = None
    """The value; absent with a `reason` when it could not be measured."""

    low: float | None = None
    """Lower bound, where histogram boundaries leave a range."""

    high: float | None = None
    """Upper bound, where histogram boundaries leave a range."""

    target: float | None = None
    """What is asked for; absent when the policy sets no such target."""

    met: Met = Met.UNKNOWN
    reason: str | None = None
    """Why there is no value, in one word for machines."""

    message: Annotated[str, Field(max_length=512)] | None = None
    """The same with numbers."""


@frozen
class Trial:
    """One ended experiment in short: what the proposers remember."""

    experiment: str
    """Name of the experiment."""

    number: int
    """Its number."""

    candidate: CacheConfig
    """What was tried."""

    incumbent: CacheConfig
    """Against what."""

    strategy: str
    """Who proposed it."""

    outcome: Outcome
    """How it ended."""

    reason: OutcomeReason
    """Why it ended so."""

    ended_at: datetime
    """When it ended."""

    deltas: int = 0
    """Comparisons of pairs."""

    effect: float | None = None
    """Mean Delta of the objective; absent without any."""

    sd: float | None = None
    """Sd of a Delta."""

    predicted: float | None = None
    """Gain predicted by the proposer; absent where it predicts none."""

    guardrails: dict[str, float] = Field(default_factory=dict)
    """Mean Delta of each guardrail plus its margin (>= 0: not worse than allowed)."""

    objective: float | None = None
    """Mean objective of the candidate arm."""

    shifted: bool = False
    """True once the workload has moved since: the deny-list then no longer holds it."""


@frozen
class Pair:
    """Two agents with like traffic; the coin of a block says which one runs the candidate first."""

    first: str
    """Name of one agent."""

    second: str
    """Name of the other."""


@frozen
class Noise:
    """Sd of a Delta in a run-in or in the last experiment: the s0 of the next."""

    objective: Annotated[float, Field(gt=0)]
    guardrails: dict[str, float] = Field(default_factory=dict)
    measured_at: datetime
    pairs: Annotated[tuple[Pair, ...], Field(max_length=500)]
    """The pairs it was measured on."""

    pairing: str
    """Hash of those pairs."""

    from_run_in: bool = True
    """Whether equal configurations measured it. An experiment's own sd may be larger than a small step's."""

    effect_over_sd: float | None = None
    """|effect| / sd of the last experiment: short windows serve only large effects."""


@frozen
class Workload:
    """The workload in short, to notice later that it has moved."""

    request_rate: Annotated[float, Field(ge=0)] | None = None
    """Requests per second and agent, mean over the agents that say; absent where none does."""

    touches: Annotated[float, Field(ge=0)] = 0.0
    reused: Annotated[tuple[float, ...], Field(max_length=64)] = ()
    """Share of all touches that are re-touches within 1, 2, 4, ... seconds; empty with too few touches."""


@frozen
class Promotion:
    """A configuration that was proven better, and by what."""

    config: CacheConfig
    experiment: str | None = None
    """The experiment that proved it."""

    at: datetime
    """When it was promoted."""


@frozen
class FalsePositives:
    """Result of mode AATest: how often equal configurations were declared different."""

    experiments: int = 0
    """Experiments decided."""

    promoted: int = 0
    """Of these: equal configurations called better."""

    rejected: int = 0
    """Of these: equal configurations called worse."""


@frozen
class Shown:
    """The SLIs against their targets as `kubectl get` shows them."""

    ttft: Annotated[str, Field(max_length=64)] = ""
    """Such as `53.8% <250ms (90%)`; empty without this target."""

    hit_rate: Annotated[str, Field(max_length=64)] = ""
    """Such as `37.1% (78%)`; `n/a` with the reason where it is missing; without a target the value alone."""


@frozen
class PolicyStatus:
    """The state of one policy."""

    phase: Phase = Phase.IDLE
    waiting_for: Annotated[str, Field(max_length=512)] = ""
    """Why the phase waits, with numbers."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""

    spec_hash: str = ""
    """Digest of the spec this status speaks of."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """What holds and what does not, each with a reason."""

    slis: Annotated[tuple[Sli, ...], Field(max_length=8)] = ()
    """The service level indicators against their targets."""

    shown: Shown = Shown()
    agents: int = 0
    """Agents selected."""

    agents_ready: int = 0
    """Of these: agents that answer and are ready."""

    incumbent: CacheConfig | None = None
    """The configuration that all agents outside a candidate arm run."""

    promoted: Promotion | None = None
    experiment: str | None = None
    """Name of the running experiment."""

    experiments_started: int = 0
    """Experiments started so far."""

    push_generation: int = 0
    """Number of the newest assignment of configurations to agents."""

    last_outcome: str = ""
    """How the last experiment ended."""

    trials: Annotated[tuple[Trial, ...], Field(max_length=TRIALS_KEPT), Packed()] = ()
    """Ended experiments in short (packed): what the proposers remember."""

    noise: Annotated[Noise | None, Packed()] = None
    """Sd of a Delta as last measured (packed)."""

    workload: Annotated[Workload | None, Packed()] = None
    """The workload under which the trials were made."""

    cooldown_until: datetime | None = None
    """No experiment starts before this."""

    next_try_at: datetime | None = None
    """When proposals are made again after there was nothing to try."""

    estimated_end: datetime | None = None
    """When the running experiment will have ended."""

    power: float | None = None
    """Probability that the running (or refused) experiment finds the gain it looks for."""

    expected_false_promotions: float = 0.0
    """Upper bound on expected false promotions so far: alpha times experiments decided."""

    would_try: CacheConfig | None = None
    """Mode Observe: the candidate that an experiment would test."""

    would_gain: float | None = None
    """Mode Observe: its predicted gain in the objective."""

    false_positives: FalsePositives | None = None
    paused_because: Annotated[str, Field(max_length=512)] = ""
    """Why the policy is paused without `spec.paused`: a guardrail, or the command `pause`."""
