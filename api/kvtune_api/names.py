"""Names that processes and users share: API group, condition types, reasons, metrics and labels.

Every metric name of kvtune stands here and nowhere else. Reasons are CamelCase and stable: people alert on
them.
"""

from enum import StrEnum
from typing import Final, Literal

GROUP: Final = "kvtune.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final[Literal["kvtune.dev/v1alpha1"]] = "kvtune.dev/v1alpha1"
POLICIES: Final = "kvcachepolicies"
EXPERIMENTS: Final = "kvcacheexperiments"

FINALIZER: Final = "kvtune.dev/experiment"
"""On policy and experiment while an experiment is live, and never else."""

AGENT_PORT: Final = "kvtune"
"""Name of the container port by which a pod is known as a cache agent."""

LABEL_POLICY_NAME: Final = "kvtune.dev/policy"
"""On an experiment: the policy that it belongs to."""

LABEL_POLICY_UID: Final = "kvtune.dev/policy-uid"
"""On an experiment: the UID of that policy, which another one of its name does not have."""

LABEL_METRICS_CREDENTIALS: Final = "kvtune.dev/metrics-credentials"
"""On a Secret that policies of its namespace may name for Prometheus or Pyroscope."""

LABEL_AGENT_TOKEN: Final = "kvtune.dev/agent-token"
"""On the Secret with the write token of a namespace's agents."""

AGENT_TOKEN_SECRET: Final = "kvtune-agent-token"
"""Name of that Secret; its key is `token`."""

ANNOTATION_ABORT: Final = "kvtune.dev/abort"
"""On a policy: name of the experiment to abort."""

ANNOTATION_APPROVE: Final = "kvtune.dev/approve"
"""On a policy: name of the winner to promote (mode Recommend)."""

ANNOTATION_RESUME: Final = "kvtune.dev/resume"
"""On a policy, any value: go on after a pause that a guardrail asked for."""

ANNOTATION_TRY: Final = "kvtune.dev/try"
"""On a policy: a configuration as JSON to try next, such as {"cacheTTL": "90s"}."""

ANNOTATION_RESTORE: Final = "kvtune.dev/restore"
"""On a policy: name of the agent that is to run its eviction policy again after a fallback, or `all`."""

ANNOTATION_TOKEN: Final = "kvtune.dev/fencing-token"
"""On the operator's Lease: the highest fencing token that was ever used."""

ANNOTATION_STANDBY: Final = "kvtune.dev/standby"
"""On the operator's Lease: `identity time` of the newest replica that waits for it."""


class Phase(StrEnum):
    """Where a policy stands."""

    IDLE = "Idle"
    PAUSED = "Paused"
    PROPOSED = "Proposed"
    RUN_IN = "RunIn"
    WASHOUT = "Washout"
    MEASURING = "Measuring"
    AWAITING_APPROVAL = "AwaitingApproval"
    PROMOTING = "Promoting"
    WATCHING = "Watching"
    ROLLING_BACK = "RollingBack"


class Outcome(StrEnum):
    """How an experiment ended. Everything but Promoted keeps the incumbent."""

    PROMOTED = "Promoted"
    REJECTED = "Rejected"
    ROLLED_BACK = "RolledBack"
    INCONCLUSIVE = "Inconclusive"
    ABORTED = "Aborted"


class OutcomeReason(StrEnum):
    """Why an experiment ended as it did."""

    SUPERIOR = "Superior"
    HARM_OBJECTIVE = "HarmObjective"
    HARM_GUARDRAIL = "HarmGuardrail"
    BREAKER = "Breaker"
    WATCH = "Watch"
    PROMOTION_FAILED = "PromotionFailed"
    MAX_PAIRS = "MaxPairs"
    NO_DATA = "NoData"
    SAMPLE_RATIO = "SampleRatio"
    NOT_APPROVED = "NotApproved"
    USER = "User"
    SUPERSEDED = "Superseded"
    BUDGET = "Budget"
    SHUTDOWN = "Shutdown"
    UNDERPOWERED = "Underpowered"
    FROZEN = "Frozen"


class ConditionType(StrEnum):
    """What a condition is about."""

    ACCEPTED = "Accepted"
    EXCLUSIVE = "Exclusive"
    AGENTS_READY = "AgentsReady"
    METRICS_AVAILABLE = "MetricsAvailable"
    TARGETS_MET = "TargetsMet"
    EXPERIMENTING = "Experimenting"
    FENCED = "Fenced"
    CONVERGED = "Converged"
    INCUMBENT_HEALTHY = "IncumbentHealthy"
    EVICTION_AS_ASKED = "EvictionAsAsked"


class ExperimentConditionType(StrEnum):
    """What a condition of an experiment is about (`kubectl wait --for=condition=Decided kvx/NAME`)."""

    RUNNING = "Running"
    """True until the incumbents, or the winner, run everywhere and the record is closed."""

    DECIDED = "Decided"
    """True once the outcome is known."""

    EXPOSED = "Exposed"
    """True while some agent may run the candidate."""


class Reason(StrEnum):
    """Machine reasons of conditions and events."""

    ACCEPTED = "Accepted"
    OVERLAPPING = "OverlappingSelector"
    SOLE = "SoleOwner"
    NO_NODES = "NoNodes"
    NO_PODS = "NoPods"
    NO_PORT = "NoPort"
    PODS_NOT_READY = "PodsNotReady"
    NO_TOKEN = "NoToken"
    AGENT_LEFT = "AgentLeft"
    FROZEN = "Frozen"
    STOPPED = "Stopped"
    CAPPED = "Capped"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"
    READY = "Ready"
    NO_AGENTS = "NoAgents"
    TOO_FEW_AGENTS = "TooFewAgents"
    UNREACHABLE = "Unreachable"
    KNOB_UNSUPPORTED = "KnobUnsupported"
    MIXED_VERSIONS = "MixedVersions"
    MIXED_CONFIGS = "MixedConfigurations"
    AVAILABLE = "Available"
    NO_DATA = "NoData"
    NO_TRAFFIC = "NoTraffic"
    MET = "Met"
    VIOLATED = "Violated"
    UNKNOWN = "Unknown"
    RESOLUTION_INSUFFICIENT = "ResolutionInsufficient"
    INCUMBENT_VIOLATES_TARGET = "IncumbentViolatesTarget"
    RUNNING = "Running"
    RESTING = "Resting"
    COOLDOWN = "Cooldown"
    OBSERVING = "Observing"
    PAUSED = "Paused"
    NOTHING_TO_TRY = "NothingToTry"
    UNDERPOWERED = "Underpowered"
    TOO_LONG = "TooLong"
    BUDGET = "Budget"
    FENCED = "Fenced"
    IN_SYNC = "InSync"
    OUT_OF_SYNC = "OutOfSync"
    EXPERIMENT_STARTED = "ExperimentStarted"
    EXPERIMENT_ENDED = "ExperimentEnded"
    GUARDRAIL_TRIPPED = "GuardrailTripped"
    PROMOTED = "Promoted"
    LEASE_LAPSED = "LeaseLapsed"
    EVICTION_FALLBACK = "EvictionFallback"
    EVICTION_RESTORED = "EvictionRestored"
    EPOCH_DROPPED = "EpochDropped"
    AWAITING_APPROVAL = "AwaitingApproval"
    ROLLBACK_LATE = "RollbackLate"
    SUPERSEDED = "Superseded"
    NOT_AVAILABLE = "NotAvailable"
    BUG = "Bug"


class Metric(StrEnum):
    """Metric names. vLLM's own names are used where vLLM has one."""

    VLLM_TTFT = "vllm:time_to_first_token_seconds"
    VLLM_PROMPT_TOKENS = "vllm:prompt_tokens"
    VLLM_REQUESTS = "vllm:request_success"
    VLLM_DEVICE_QUERIES = "vllm:prefix_cache_queries"
    VLLM_DEVICE_HITS = "vllm:prefix_cache_hits"
    VLLM_EXTERNAL_QUERIES = "vllm:external_prefix_cache_queries"
    VLLM_EXTERNAL_HITS = "vllm:external_prefix_cache_hits"
    VLLM_OLD_QUERIES = "vllm:gpu_prefix_cache_queries"
    VLLM_OLD_HITS = "vllm:gpu_prefix_cache_hits"
    PROCESS_STARTED_AT = "process_start_time_seconds"
    VLLM_QUEUE_TIME = "vllm:request_queue_time_seconds"
    AGENT_INFO = "kvtune_agent_info"
    AGENT_CONFIG_TTL = "kvtune_agent_cache_ttl_seconds"
    AGENT_CONFIG_RATIO = "kvtune_agent_eviction_ratio"
    AGENT_CONFIG_HOST = "kvtune_agent_host_memory_bytes"
    AGENT_EVICTION_POLICY = "kvtune_agent_eviction_policy"
    AGENT_STORE_THRESHOLD = "kvtune_agent_store_threshold"
    AGENT_FALLBACK = "kvtune_agent_eviction_fallback"
    AGENT_FALLBACKS = "kvtune_agent_eviction_fallbacks"
    AGENT_HOST_USED = "kvtune_agent_host_memory_used_bytes"
    AGENT_ROLE = "kvtune_agent_candidate"
    AGENT_GENERATION = "kvtune_agent_config_generation"
    AGENT_LEASE = "kvtune_agent_lease_remaining_seconds"
    AGENT_LEASE_LAPSES = "kvtune_agent_lease_lapses"
    AGENT_COUNTERS_AT = "kvtune_agent_counters_timestamp_seconds"
    AGENT_STARTED_AT = "kvtune_agent_start_time_seconds"
    AGENT_EVICTION_PASSES = "kvtune_agent_eviction_passes"
    AGENT_EVICTED_BLOCKS = "kvtune_agent_evicted_blocks"
    AGENT_KIND_REQUESTS = "kvtune_agent_requests_by_kind"
    AGENT_KIND_PROMPT = "kvtune_agent_prompt_tokens_by_kind"
    AGENT_KIND_HITS = "kvtune_agent_hit_tokens_by_kind"
    AGENT_BYTES_DOWN = "kvtune_agent_bytes_written_down"
    AGENT_ERRORS = "kvtune_agent_request_errors"
    AGENT_NEW_ROOTS = "kvtune_agent_new_session_roots"
    AGENT_STALL = "kvtune_agent_stall_seconds"
    AGENT_REFUSED = "kvtune_agent_refused_pushes"
    CONTROL_TICK = "kvtune_tick_duration_seconds"
    CONTROL_TICKS_FAILED = "kvtune_ticks_failed"
    CONTROL_PHASE = "kvtune_policy_phase"
    CONTROL_SLI = "kvtune_policy_sli"
    CONTROL_TARGET = "kvtune_policy_target"
    CONTROL_EXPERIMENTS = "kvtune_experiments_ended"
    CONTROL_E_VALUE = "kvtune_experiment_e_value"
    CONTROL_DELTAS = "kvtune_experiment_deltas"
    CONTROL_PUSHES = "kvtune_pushes"
    CONTROL_MISSING = "kvtune_missing_samples"
    CONTROL_API_CALLS = "kvtune_api_calls"
    CONTROL_LEADER = "kvtune_leader"
    CONTROL_POLICIES = "kvtune_policies"
    CONTROL_LIVE = "kvtune_experiments_running"
    CONTROL_TOKEN = "kvtune_fencing_token"
    CONTROL_CONFIG_VALID = "kvtune_operator_config_valid"
    CONTROL_BUGS = "kvtune_policy_bugs"


LABEL_REASON: Final = "reason"
LABEL_POLICY: Final = "policy"
LABEL_EVICTION_POLICY: Final = "eviction_policy"
LABEL_KIND: Final = "kind"
LABEL_OUTCOME: Final = "outcome"
LABEL_PHASE: Final = "phase"
LABEL_SLI: Final = "sli"
LABEL_VERB: Final = "verb"
LABEL_RESOURCE: Final = "resource"
