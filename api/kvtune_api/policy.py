"""KVCachePolicy: what a platform engineer asks for, and what the control plane answers.

The same document serves `kvtune up -f` and, in a cluster, `kubectl apply -f`. Every field has a default
where a default can be right, so a policy of ten lines works.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kvtune_api.codec import user_written
from kvtune_api.errors import Problem
from kvtune_api.eviction_fallback import EvictionFallback
from kvtune_api.experiment_settings import ExperimentSettings
from kvtune_api.labels import LabelSelector
from kvtune_api.metadata import Metadata
from kvtune_api.names import API_VERSION
from kvtune_api.policy_knobs import Knobs
from kvtune_api.rules import Form, Rule, ruled
from kvtune_api.scalars import NUMBER, Switch
from kvtune_api.sources import PrometheusSource, PyroscopeSource
from kvtune_api.status import PolicyStatus
from kvtune_api.units import Duration, PositiveDuration

Share = Annotated[float, Field(gt=0, lt=1), NUMBER]
Price = Annotated[float, Field(ge=0, le=1_000_000), NUMBER]
AgentAddress = Annotated[
    str,
    Field(max_length=253),
    Form(
        pattern=r"^https?://[A-Za-z0-9.:_\[\]-]+/?$",
        words="an address of an agent such as http://10.0.0.7:9000",
    ),
]

NAME_MAX_LENGTH = 57
"""An experiment's name is the policy's with a number, and a label's value: 63 characters at most."""

ONE_TARGET = "at least one target is needed: ttft or hitRate"
NO_ADDRESSES = "not in a cluster, where agents are found by labels (`kvtune up` accepts addresses)"


@user_written
@ruled(
    Rule(
        holds="!has(self.addresses) || size(self.addresses) == 0",
        message=f"'addresses: %d set: {NO_ADDRESSES}'.format([size(self.addresses)])",
    )
)
class Selector:
    """Which agents this policy tunes."""

    nodes: LabelSelector = LabelSelector()
    """Labels of the nodes that form the pool (in a cluster)."""

    agents: LabelSelector = LabelSelector()
    """Labels of the agents' pods on those nodes (in a cluster)."""

    addresses: Annotated[tuple[AgentAddress, ...], Field(max_length=1000)] = ()
    """Addresses of the agents, `http://host:port` (standalone only; `kvtune up --agents` overrides them)."""


@user_written
class TTFTTarget:
    """A share of the requests must see their first token within a limit."""

    quantile: Annotated[float, Field(ge=0.5, lt=1), NUMBER] = 0.95
    """The share: 0.95 asks that 95 % of the requests are within the limit."""

    limit: PositiveDuration
    """The limit. Best at a boundary of the engine's TTFT histogram (vLLM: 100ms, 250ms, 500ms, 750ms, 1s)."""


@user_written
class HitRateTarget:
    """A floor under the hit rate."""

    min: Share
    """The floor: hit tokens / prompt tokens, device and lower tiers together."""


@user_written
class StallTarget:
    """A ceiling over the share of profile samples in load, store and evict frames."""

    max: Share
    """The ceiling: stalled samples / all samples."""


@user_written
@ruled(Rule(holds="has(self.ttft) || has(self.hitRate)", message=f"'{ONE_TARGET}'"))
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
            raise ValueError(ONE_TARGET)
        return self


@user_written
class Prices:
    """What a configuration costs, in points of hit rate per unit. Without prices more is always better."""

    memory: Price = 0.0
    """Points per GiB of host memory configured per agent."""

    eviction_pass: Price = 0.0
    """Points per eviction pass per minute and agent."""

    bytes_down: Price = 0.0
    """Points per GiB written below the device per minute and agent."""


@user_written
class Objective:
    """What decides between two configurations: hit rate minus prices, per agent and window."""

    prices: Prices = Prices()
    """Prices of memory, passes and bytes."""


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


class MetricsSource(StrEnum):
    """Where SLIs come from."""

    AUTO = "Auto"
    """Prometheus where the policy or the operator names one, else Scrape."""

    SCRAPE = "Scrape"
    """The agents' own reports."""

    PROMETHEUS = "Prometheus"


@user_written
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


@user_written
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

    eviction_fallback: EvictionFallback | None = None
    """When agents give their eviction policy up for LRU. Without it each does as it was started to."""

    strategy: Strategy = Strategy.AUTO
    """Who proposes candidates. Auto: the reuse model, then other policies, the ladder, Optuna."""

    experiment: ExperimentSettings = ExperimentSettings()
    """How experiments are run."""

    mode: Mode = Mode.AUTO
    """Observe, Recommend (a winner waits for approval), Auto, or AATest (measures false positives)."""

    paused: Switch = False
    """Stop: a running experiment is aborted, all agents keep the incumbent."""

    metrics: Metrics = Metrics()
    """Where SLIs come from."""

    history_limit: Annotated[int, Field(ge=1, le=300), NUMBER] = 20
    """This many ended experiments are kept (in a cluster); older ones are deleted."""

    retention: Retention = Retention.DELETE
    """What becomes of the experiments when this policy is deleted: Delete or Orphan (in a cluster)."""


def _short_name(metadata: Metadata) -> Metadata:
    if (length := len(metadata.name)) > NAME_MAX_LENGTH:
        raise ValueError(
            f"name '{metadata.name}' has {length} characters, at most {NAME_MAX_LENGTH} are allowed"
        )
    return metadata


@user_written
@ruled(
    Rule(
        holds=f"size(self.metadata.name) <= {NAME_MAX_LENGTH}",
        message=f"'metadata.name has %d characters, at most {NAME_MAX_LENGTH} are allowed'"
        ".format([size(self.metadata.name)])",
    )
)
class KVCachePolicy:
    """A policy: tune these agents, within these bounds, towards this objective, keeping these targets."""

    api_version: Literal["kvtune.dev/v1alpha1"] = API_VERSION
    kind: Literal["KVCachePolicy"] = "KVCachePolicy"
    metadata: Annotated[Metadata, AfterValidator(_short_name)]
    spec: PolicySpec
    """What is asked for."""

    status: PolicyStatus | None = None
    """What the control plane answers."""


def cluster_problems(policy: KVCachePolicy) -> tuple[Problem, ...]:
    """What a cluster refuses and `kvtune up` accepts; the CRD says the same."""
    if not (addresses := policy.spec.selector.addresses):
        return ()
    return (Problem("spec.selector", f"addresses: {len(addresses)} set: {NO_ADDRESSES}"),)
