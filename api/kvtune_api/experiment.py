"""KVCacheExperiment: one comparison of a candidate with the incumbent, and its ledger.

The spec never changes: it holds a snapshot of what is judged. The status is a bounded ledger from which
`kvtune replay` recomputes every verdict: raw counter increases by pair and epoch, coins, drops with reasons,
and a checkpoint of every test where older rows have left the ring.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import LEDGER_VERSION, RING_ROWS, Checkpoint, Decision, Row
from kvtune_api.metadata import Metadata
from kvtune_api.names import API_VERSION, ExperimentConditionType, Outcome, OutcomeReason, Phase
from kvtune_api.packing import Packed
from kvtune_api.policy import PolicySpec
from kvtune_api.status import Pair, Truth


class Kind(StrEnum):
    """What an experiment is for."""

    GAIN = "Gain"
    AA = "AA"


@frozen
class ExperimentSpec:
    """What is judged: immutable."""

    policy: str
    policy_uid: str
    policy_spec: PolicySpec
    """Snapshot of the policy at the start."""

    policy_hash: str
    number: int
    kind: Kind = Kind.GAIN
    incumbent: CacheConfig
    candidate: CacheConfig
    strategy: str
    """Which proposer named the candidate."""

    why: Annotated[str, Field(max_length=512)] = ""
    predicted_gain: float | None = None
    predicted_objective: float | None = None
    seed: Annotated[int, Field(ge=0)]
    pairs: Annotated[tuple[Pair, ...], Field(max_length=500)]
    pairing: str
    """Hash of the matching that the pairs come from."""

    max_pairs: int
    run_in: bool
    """Whether two blocks with equal configurations come first."""


class BlockKind(StrEnum):
    """What a block measures."""

    RUN_IN = "RunIn"
    TEST = "Test"


@frozen
class Epoch:
    """The epoch that runs now. Bounds are engine seconds on the agents' grid."""

    block: int
    attempt: int
    epoch: Literal[1, 2]
    kind: BlockKind
    switch_at: float
    """From here on the configurations are pushed."""

    measure_from: float
    measure_to: float
    generation: int
    """Push generation of this epoch's assignment."""

    confirmed: bool = False
    """Whether every agent that answers has reported this epoch's configuration."""

    lapses: dict[str, int] = Field(default_factory=dict)
    """Lease lapses that each candidate agent had counted before this epoch."""

    troubled: dict[str, str] = Field(default_factory=dict)
    """Agents whose pair cannot count in this epoch, and why (restart, drift): blind to which arm they are."""

    left_out: Annotated[tuple[int, ...], Field(max_length=500)] = ()
    """Pairs of which an agent was gone or leaving when the epoch began: both agents keep the incumbent."""


@frozen
class GuardrailPlan:
    """One guardrail as it is judged."""

    name: str
    margin: float
    sd: float


@frozen
class Evidence:
    """The tests in short, for people."""

    deltas: int = 0
    effect: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    e_value: float | None = None
    threshold: float | None = None
    p_value: float | None = None
    candidate: dict[str, float] = Field(default_factory=dict)
    """Means of the candidate arm: objective, hitRate, ttft."""

    control: dict[str, float] = Field(default_factory=dict)
    guardrails: dict[str, float] = Field(default_factory=dict)
    """Mean Delta of each guardrail."""

    sample_ratio: str = "NotAvailable"
    """p-value bound of the sample-ratio gate, or NotAvailable."""


@frozen
class WatchState:
    """The watch after a promotion."""

    holdback: str
    """The one agent that keeps the incumbent while the promotion is watched."""

    partner: str
    """The promoted agent of the holdback's pair."""

    pair: int
    windows: Annotated[tuple[tuple[float, float], ...], Field(max_length=100)] = ()
    differences: Annotated[tuple[float | None, ...], Field(max_length=100)] = ()
    """Promoted minus holdback in the objective, one per window that is over; null where it is missing."""

    epochs: int
    """Epochs of the experiment from which the pair's own difference is known."""

    sd_delta: float
    pair_difference: float
    """Partner minus holdback in the experiment, the arms' effect cancelled."""


@frozen
class Breach:
    """What the breaker saw when it tripped."""

    at: float
    check: str
    message: Annotated[str, Field(max_length=1024)]


@frozen
class ExperimentCondition:
    """One aspect of an experiment's state, as Kubernetes writes conditions."""

    type: ExperimentConditionType
    status: Truth
    reason: Annotated[str, Field(max_length=64)]
    """A phase, an outcome's reason, or Undecided."""

    message: Annotated[str, Field(max_length=1024)]
    last_transition_time: datetime
    observed_generation: int = 0


@frozen
class ExperimentShown:
    """The tests as `kubectl get` shows them, as of the last block."""

    effect: Annotated[str, Field(max_length=64)] = ""
    """Mean Delta of the objective with its interval in points, such as `+2.1 [+1.0, +3.2]`."""

    e_value: Annotated[str, Field(max_length=64)] = ""
    """Superiority's e-value against what it needs, such as `34.1/20`."""

    deltas: Annotated[str, Field(max_length=64)] = ""
    """Deltas judged of the most that there may be, such as `12/24`."""


@frozen
class ExperimentStatus:
    """The bounded ledger."""

    ledger_version: int = LEDGER_VERSION
    spec_digest: str = ""
    """Digest of the spec when the experiment was created: replay notices an edit."""

    phase: Phase = Phase.PROPOSED
    phase_since: float = 0.0
    started_at: float = 0.0
    """Engine seconds at which the experiment was created."""

    deadline: float = 0.0
    """Engine seconds by which this phase must have ended."""

    epoch: Epoch | None = None
    generation: int = 0
    """Push generation of the newest assignment of this experiment."""

    unreachable_since: dict[str, float] = Field(default_factory=dict)
    """Agents of the experiment that do not answer, and since when (engine seconds)."""

    restarts_candidate: int = 0
    """Restarts of agents while they were in the candidate arm, promoted agents included."""

    restarts_control: int = 0
    """Restarts of agents while they were in the control arm, or the holdback."""

    restarts_repeated: int = 0
    """Of `restarts_candidate`: by agents that had restarted before in this experiment, in whichever arm."""

    restarted: dict[str, float] = Field(default_factory=dict)
    """Agents that restarted, with the start (engine seconds) that was counted last."""

    promoting_since: float | None = None
    """Engine seconds since which the promotion has been running."""

    promoted_agents: int = 0
    """How many agents the ramp of a promotion has reached."""

    washout: float = 0.0
    window: float = 0.0
    noise_objective: float | None = None
    guardrails: Annotated[tuple[GuardrailPlan, ...], Field(max_length=8)] = ()
    power: float | None = None
    guardrail_power: float | None = None
    estimated_end: float | None = None
    checkpoint: Annotated[Checkpoint | None, Packed()] = None
    """State of every test before the first row of the ring; absent while no test row has left it."""

    rows: Annotated[tuple[Row, ...], Field(max_length=RING_ROWS + 3000), Packed()] = ()
    decisions: Annotated[tuple[Decision, ...], Field(max_length=RING_ROWS), Packed()] = ()
    evidence: Evidence = Evidence()
    last_data_at: float = 0.0
    watch: WatchState | None = None
    breach: Breach | None = None
    approved: bool = False
    outcome: Outcome | None = None
    reason: OutcomeReason | None = None
    message: Annotated[str, Field(max_length=1024)] = ""
    decided_at: float | None = None
    """Engine seconds at which the outcome became known; the incumbents may still be on their way back."""

    exposed: bool = False
    """Whether some agent may run the candidate."""

    exposed_changed_at: float | None = None
    """Engine seconds at which `exposed` changed last."""

    ended_at: datetime | None = None
    shown: ExperimentShown = ExperimentShown()
    conditions: Annotated[tuple[ExperimentCondition, ...], Field(max_length=8)] = ()
    """Running, Decided, Exposed: derived from all the rest when the experiment is stored in a cluster."""


@frozen
class KVCacheExperiment:
    """One experiment: what is judged, and everything that was seen."""

    api_version: Literal["kvtune.dev/v1alpha1"] = API_VERSION
    kind: Literal["KVCacheExperiment"] = "KVCacheExperiment"
    metadata: Metadata
    spec: ExperimentSpec
    status: ExperimentStatus = ExperimentStatus()
