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
from kvtune_api.evidence import Breach, Evidence, ExperimentCondition, ExperimentShown
from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import LEDGER_VERSION, RING_ROWS, Checkpoint, Decision, Row
from kvtune_api.metadata import Metadata
from kvtune_api.names import API_VERSION, Outcome, OutcomeReason, Phase
from kvtune_api.packing import Packed
from kvtune_api.policy import PolicySpec
from kvtune_api.status import Pair


class Kind(StrEnum):
    """What an experiment is for."""

    GAIN = "Gain"
    AA = "AA"


@frozen
class ExperimentSpec:
    """What is judged: immutable."""

    policy: Annotated[str, Field(max_length=253)]
    """Name of the policy."""

    policy_uid: Annotated[str, Field(max_length=64)]
    """UID of the policy."""

    policy_spec: Annotated[PolicySpec, Packed()]
    """Snapshot of the policy at the start."""

    policy_hash: Annotated[str, Field(max_length=64)]
    """Digest of the snapshot."""

    number: int
    """Number of the experiment within its policy."""

    kind: Kind = Kind.GAIN
    incumbent: CacheConfig
    """What the agents run."""

    candidate: CacheConfig
    """What is tried."""

    strategy: Annotated[str, Field(max_length=64)]
    """Which proposer named the candidate."""

    why: Annotated[str, Field(max_length=512)] = ""
    """Why it was proposed, with numbers."""

    predicted_gain: float | None = None
    """Gain in the objective that the proposer predicts."""

    predicted_objective: float | None = None
    """Objective of the candidate that the proposer predicts."""

    seed: Annotated[int, Field(ge=0)]
    """Seed of the coins that assign arms."""

    pairs: Annotated[tuple[Pair, ...], Field(max_length=500)]
    """The pairs of agents."""

    pairing: Annotated[str, Field(max_length=64)]
    """Hash of the matching that the pairs come from."""

    max_pairs: int
    """Undecided after this many Deltas: Inconclusive."""

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
    """Number of the block."""

    attempt: int
    """Grows when a block is repeated with new coins."""

    epoch: Literal[1, 2]
    """First or second half of the block: the arms change places."""

    kind: BlockKind
    switch_at: float
    """From here on the configurations are pushed."""

    measure_from: float
    """Begin of the measuring window."""

    measure_to: float
    """End of the measuring window."""

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
    """Name of the guardrail."""

    margin: float
    """How much worse still counts as not worse."""

    sd: float
    """Sd of its Delta that the plan assumes."""


@frozen
class WatchState:
    """The watch after a promotion."""

    holdback: str
    """The one agent that keeps the incumbent while the promotion is watched."""

    partner: str
    """The promoted agent of the holdback's pair."""

    pair: int
    """Number of the pair of both."""

    windows: Annotated[tuple[tuple[float, float], ...], Field(max_length=100)] = ()
    """Begin and end of each window of the watch, in engine seconds."""

    differences: Annotated[tuple[float | None, ...], Field(max_length=100)] = ()
    """Promoted minus holdback in the objective, one per window that is over; null where it is missing."""

    epochs: int
    """Epochs of the experiment from which the pair's own difference is known."""

    sd_delta: float
    """Sd of a Delta in the experiment."""

    pair_difference: float
    """Partner minus holdback in the experiment, the arms' effect cancelled."""


@frozen
class ExperimentStatus:
    """The bounded ledger."""

    ledger_version: int = LEDGER_VERSION
    """Version of the form of rows and decisions."""

    spec_digest: str = ""
    """Digest of the spec when the experiment was created: replay notices an edit."""

    phase: Phase = Phase.PROPOSED
    phase_since: float = 0.0
    """Engine seconds at which the phase began."""

    started_at: float = 0.0
    """Engine seconds at which the experiment was created."""

    deadline: float = 0.0
    """Engine seconds by which this phase must have ended."""

    epoch: Annotated[Epoch | None, Packed()] = None
    """The epoch that runs now; the condition Running says its bounds."""

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
    """Washout of an epoch in seconds."""

    window: float = 0.0
    """Measuring window of an epoch in seconds."""

    noise_objective: float | None = None
    """Sd of the objective's Delta that the plan assumes."""

    guardrails: Annotated[tuple[GuardrailPlan, ...], Field(max_length=8)] = ()
    """The guardrails as they are judged."""

    power: float | None = None
    """Probability that the experiment finds the gain it looks for."""

    guardrail_power: float | None = None
    """Probability that a harmless candidate passes every guardrail."""

    estimated_end: float | None = None
    """Engine seconds at which it will have ended."""

    checkpoint: Annotated[Checkpoint | None, Packed()] = None
    """State of every test before the first row of the ring; absent while no test row has left it."""

    rows: Annotated[tuple[Row, ...], Field(max_length=RING_ROWS + 3000), Packed()] = ()
    """Raw counter increases by pair and epoch (packed)."""

    decisions: Annotated[tuple[Decision, ...], Field(max_length=RING_ROWS), Packed()] = ()
    """What was decided at the end of each block (packed)."""

    evidence: Evidence = Evidence()
    last_data_at: float = 0.0
    """Engine seconds of the newest usable measurement."""

    watch: WatchState | None = None
    breach: Breach | None = None
    approved: bool = False
    """Whether a winner was approved (mode Recommend)."""

    outcome: Outcome | None = None
    reason: OutcomeReason | None = None
    message: Annotated[str, Field(max_length=1024)] = ""
    """How it ended, with numbers."""

    decided_at: float | None = None
    """Engine seconds at which the outcome became known; the incumbents may still be on their way back."""

    exposed: bool = False
    """Whether some agent may run the candidate."""

    exposed_changed_at: float | None = None
    """Engine seconds at which `exposed` changed last."""

    ended_at: datetime | None = None
    """When it ended."""

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
