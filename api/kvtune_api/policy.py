"""KVCachePolicy: what a platform engineer asks for, and what the control plane answers.

The same document serves `kvtune up -f` and, in a cluster, `kubectl apply -f`. Every field has a default
where a default can be right, so a policy of ten lines works.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from kvtune_api.codec import frozen
from kvtune_api.metadata import Metadata
from kvtune_api.names import API_VERSION
from kvtune_api.ranges import Bounds, DurationRange, QuantityRange, RatioRange
from kvtune_api.sources import PrometheusSource, PyroscopeSource
from kvtune_api.status import PolicyStatus
from kvtune_api.units import Duration, PositiveDuration

Label = Annotated[str, Field(max_length=317)]
LabelValue = Annotated[str, Field(max_length=63)]
Share = Annotated[float, Field(gt=0, lt=1)]
Points = Annotated[float, Field(ge=0, le=1)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]


@frozen
class LabelSelector:
    """Kubernetes labels that must all match."""

    match_labels: Annotated[dict[Label, LabelValue], Field(max_length=16)] = Field(default_factory=dict)
    """Label names and the values they must have."""


@frozen
class Selector:
    """Which agents this policy tunes."""

    nodes: LabelSelector = LabelSelector()
    """Labels of the nodes that form the pool (in a cluster)."""

    agents: LabelSelector = LabelSelector()
    """Labels of the agents' pods on those nodes (in a cluster)."""

    addresses: Annotated[
        tuple[Annotated[str, Field(max_length=253, pattern=r"^https?://[^/\s]+/?$")], ...],
        Field(max_length=1000),
    ] = ()
    """Addresses of the agents, `http://host:port` (standalone only; `kvtune up --agents` overrides them)."""


@frozen
class TTFTTarget:
    """A share of the requests must see their first token within a limit."""

    quantile: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """The share: 0.95 asks that 95 % of the requests are within the limit."""

    limit: PositiveDuration
    """The limit. Best at a boundary of the engine's TTFT histogram (vLLM: 100ms, 250ms, 500ms, 750ms, 1s)."""


@frozen
class HitRateTarget:
    """A floor under the hit rate."""

    min: Share
    """The floor: hit tokens / prompt tokens, device and lower tiers together."""


@frozen
class StallTarget:
    """A ceiling over the share of profile samples in load, store and evict frames."""

    max: Share
    """The ceiling: stalled samples / all samples."""


@frozen
class Targets:
    """What must hold. Each target is also a guardrail of every experiment. At least one is needed."""

    ttft: TTFTTarget | None = None
    """Time to first token."""

    hit_rate: HitRateTarget | None = None
    """Hit rate."""

    stall: StallTarget | None = None
    """Share of time in which the engine waits for its cache (needs metrics.pyroscope)."""

    @model_validator(mode="after")
    def _one_target(self) -> "Targets":
        if self.ttft is None and self.hit_rate is None:
            raise ValueError("at least one target is needed: ttft or hitRate")
        return self


@frozen
class Prices:
    """What a configuration costs, in points of hit rate per unit. Without prices more is always better."""

    memory: Price = 0.0
    """Points per GiB of host memory configured per agent."""

    eviction_pass: Price = 0.0
    """Points per eviction pass per minute and agent."""

    bytes_down: Price = 0.0
    """Points per GiB written below the device per minute and agent."""


@frozen
class Objective:
    """What decides between two configurations: hit rate minus prices, per agent and window."""

    prices: Prices = Prices()
    """Prices of memory, passes and bytes."""


@frozen
class TierKnobs:
    """Knobs of the tiers below the device."""

    host_memory: QuantityRange | None = None
    """Host memory for KV blocks on each agent's node."""


@frozen
class Knobs:
    """What may be tuned. A knob that is not named is left as the agents have it."""

    cache_ttl: DurationRange | None = None
    """How long an idle block is kept below the device."""

    eviction_ratio: RatioRange | None = None
    """Share of a full tier that one eviction pass frees."""

    tiers: TierKnobs = TierKnobs()
    """Sizes of tiers."""

    @model_validator(mode="after")
    def _one_knob(self) -> "Knobs":
        if self.cache_ttl is None and self.eviction_ratio is None and self.tiers.host_memory is None:
            raise ValueError("at least one knob is needed: cacheTTL, evictionRatio or tiers.hostMemory")
        return self


class Strategy(StrEnum):
    """Who proposes the next candidate. The experiment decides, whoever proposes."""

    AUTO = "Auto"
    REUSE_MODEL = "ReuseModel"
    LADDER = "Ladder"
    OPTUNA = "Optuna"
    PROPORTIONAL = "Proportional"


class Mode(StrEnum):
    """How far the control plane may go."""

    OBSERVE = "Observe"
    RECOMMEND = "Recommend"
    AUTO = "Auto"
    AA_TEST = "AATest"


class OnGuardrail(StrEnum):
    """What follows when a guardrail trips."""

    ROLLBACK = "Rollback"
    ROLLBACK_AND_PAUSE = "RollbackAndPause"


@frozen
class Margins:
    """How much worse a guardrail may look and still count as not worse, as a share (0.02 = 2 points)."""

    ttft: Points | None = None
    """Share of requests within the TTFT limit. Default: one sd of its noise, between 0.02 and 0.05."""

    hit_rate: Points | None = None
    """Hit rate. Default: one sd of its noise, between 0.02 and 0.05."""

    stall: Points | None = None
    """Share of stalled samples. Default: one sd of its noise, between 0.02 and 0.05."""


@frozen
class ExperimentSettings:
    """How experiments are run. The defaults are those of the statistical design."""

    alpha: Annotated[float, Field(ge=0.001, le=0.2)] = 0.05
    """Highest probability with which an experiment declares a candidate better that is not."""

    window: Bounds = Bounds(min=Duration("120s"), max=Duration("10m"))
    """Bounds of the measuring window of an epoch."""

    washout: Bounds = Bounds(min=Duration("20s"), max=Duration("30m"))
    """Bounds of the time after a switch that is not measured."""

    pairs_at_once: Annotated[int, Field(ge=1, le=25)] = 8
    """At most this many pairs take part; all others keep the incumbent. The limit keeps ledgers small."""

    min_pairs: Annotated[int, Field(ge=5, le=1000)] = 8
    """No promotion before this many Deltas (pairs times blocks)."""

    max_pairs: Annotated[int, Field(ge=5, le=10_000)] = 24
    """Undecided after this many Deltas: Inconclusive."""

    min_requests: Annotated[int, Field(ge=1, le=10_000_000)] = 500
    """The window is made long enough for this many requests per arm and epoch."""

    max_duration: PositiveDuration = Duration("24h")
    """No experiment starts that is estimated to take longer."""

    no_data_timeout: PositiveDuration = Duration("10m")
    """Without usable measurements for this long an experiment ends as Inconclusive(NoData)."""

    margins: Margins = Margins()
    """Non-inferiority margins of the guardrails."""

    min_effect: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Smallest gain in the objective that is worth a change (0.01 = 1 point)."""

    detectable_effect: Annotated[float, Field(gt=0, le=1)] = 0.03
    """Gain for which the power is stated where the proposal predicts none."""

    cooldown: Duration = Duration("5m")
    """Rest after an experiment before the next."""

    on_guardrail: OnGuardrail = OnGuardrail.ROLLBACK
    """What follows when the circuit breaker trips."""

    watch_windows: Annotated[int, Field(ge=1, le=100)] = 2
    """Windows for which a promotion is watched against the holdback."""

    approval_timeout: PositiveDuration = Duration("24h")
    """How long a winner waits for approval (mode Recommend)."""

    lease_duration: PositiveDuration = Duration("30s")
    """Wall time after which an agent gives a candidate up unless the control plane renews it."""

    @model_validator(mode="after")
    def _pairs_in_order(self) -> "ExperimentSettings":
        if self.min_pairs > self.max_pairs:
            raise ValueError(f"minPairs {self.min_pairs} is greater than maxPairs {self.max_pairs}")
        if self.lease_duration.seconds < 3:
            raise ValueError(f"leaseDuration {self.lease_duration} is less than 3s")
        return self


class MetricsSource(StrEnum):
    """Where SLIs come from."""

    AUTO = "Auto"
    """Prometheus where the policy or the operator names one, else Scrape."""

    SCRAPE = "Scrape"
    """The agents' own reports."""

    PROMETHEUS = "Prometheus"


@frozen
class Metrics:
    """Where SLIs come from."""

    source: MetricsSource = MetricsSource.AUTO
    """Auto, Scrape (the agents' own reports) or Prometheus."""

    span: PositiveDuration = Duration("5m")
    """Span over which the SLIs in status are computed."""

    prometheus: PrometheusSource = PrometheusSource()
    """Which Prometheus, and how it is asked."""

    pyroscope: PyroscopeSource = PyroscopeSource()
    """Which Pyroscope, and how it is asked. Without an address no stalls are attributed."""


class Retention(StrEnum):
    """What becomes of the experiments of a deleted policy."""

    DELETE = "Delete"
    ORPHAN = "Orphan"


@frozen
class PolicySpec:
    """What is asked for."""

    selector: Selector = Selector()
    """Which agents."""

    targets: Targets
    """What must hold."""

    objective: Objective = Objective()
    """What decides."""

    knobs: Knobs
    """What may be tuned, and within which bounds."""

    strategy: Strategy = Strategy.AUTO
    """Who proposes candidates. Auto: the reuse model, then the ladder, then Optuna."""

    experiment: ExperimentSettings = ExperimentSettings()
    """How experiments are run."""

    mode: Mode = Mode.AUTO
    """Observe, Recommend (a winner waits for approval), Auto, or AATest (measures false positives)."""

    paused: bool = False
    """Stop: a running experiment is aborted, all agents keep the incumbent."""

    metrics: Metrics = Metrics()
    """Where SLIs come from."""

    history_limit: Annotated[int, Field(ge=1, le=300)] = 20
    """This many ended experiments are kept (in a cluster); older ones are deleted."""

    retention: Retention = Retention.DELETE
    """What becomes of the experiments when this policy is deleted: Delete or Orphan (in a cluster)."""


@frozen
class KVCachePolicy:
    """A policy: tune these agents, within these bounds, towards this objective, keeping these targets."""

    api_version: Literal["kvtune.dev/v1alpha1"] = API_VERSION
    kind: Literal["KVCachePolicy"] = "KVCachePolicy"
    metadata: Metadata
    spec: PolicySpec
    status: PolicyStatus | None = None
