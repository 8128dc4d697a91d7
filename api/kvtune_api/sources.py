"""Where SLIs and profiles come from: Prometheus and Pyroscope. In a policy, or as the operator's default.

What is not set in a policy is taken from the operator's own settings, field by field.
"""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from kvtune_api.codec import user_written
from kvtune_api.metadata import Name
from kvtune_api.rules import Form, Rule, quoted
from kvtune_api.scalars import NO_NULLS
from kvtune_api.units import Duration, PositiveDuration

Address = Annotated[
    str,
    Field(max_length=253),
    Form(
        pattern=r"^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~:/%+-]*)?$",
        words="an address such as http://prometheus.monitoring:9090",
    ),
]
LABEL_PATTERN = "^[a-zA-Z_][a-zA-Z0-9_]*$"
LABEL_WORDS = "a label of a time series such as pod"
LabelName = Annotated[str, Field(max_length=63), Form(pattern=LABEL_PATTERN, words=LABEL_WORDS)]

LABEL_MAX_LENGTH = 63


def _labels_of_series(matchers: dict[str, str]) -> dict[str, str]:
    for name in matchers:
        if len(name) > LABEL_MAX_LENGTH or re.fullmatch(LABEL_PATTERN, name) is None:
            raise ValueError(f"'{name[:80]}' is not {LABEL_WORDS} (at most {LABEL_MAX_LENGTH} characters)")
    return matchers


_STRANGE = f"size(name) > {LABEL_MAX_LENGTH} || !name.matches({quoted(LABEL_PATTERN)})"

Matchers = Annotated[
    dict[str, Annotated[str, Field(max_length=253)]],
    Field(max_length=16),
    AfterValidator(_labels_of_series),
    Rule(
        holds=f"self.all(name, !({_STRANGE}))",
        message=f'"\'" + self.filter(name, {_STRANGE})[0] + '
        f'"\' is not {LABEL_WORDS} (at most {LABEL_MAX_LENGTH} characters)"',
    ),
    NO_NULLS,
]
"""Label values that every series or profile must have."""

_VARIABLES = r"[$]([A-Za-z_][A-Za-z0-9_]*|[{])"
_FOREIGN = f"self.findAll({quoted(_VARIABLES)}).filter(name, name != '$agents')"


def _known_variables(query: str) -> str:
    for found in re.finditer(_VARIABLES, query):
        if found[0] != "$agents":
            raise ValueError(f"{found[0]} is not known in a query, only $agents is")
    return query


Query = Annotated[
    str,
    Field(min_length=1, max_length=2048),
    AfterValidator(_known_variables),
    Rule(
        holds=f"size({_FOREIGN}) == 0", message=f"{_FOREIGN}[0] + ' is not known in a query, only $agents is'"
    ),
]


@user_written
class SecretName:
    """A Secret in the policy's namespace. It must carry the label kvtune.dev/metrics-credentials."""

    name: Name
    """Keys that are used: token; or username and password; ca.crt; tls.crt and tls.key; header.NAME."""


class Preset(StrEnum):
    """Whose metric names are asked for."""

    AGENT = "Agent"
    """kvtune's agents: vLLM's names for what vLLM counts, the agents' own for the rest."""

    VLLM_V1 = "VLLMv1"
    """vLLM from 0.10 (engine V1), scraped from the engine itself."""

    VLLM_V0 = "VLLMv0"
    """vLLM 0.6 to 0.9 (engine V0), scraped from the engine itself; block hit rates only."""


@user_written
class Queries:
    """PromQL of your own, each one counter per agent. `$agents` stands for the matchers of the pool's pods.

    A query replaces the preset's series of that name: `sum by (pod) (my_requests_total{$agents})`.
    """

    requests: Query | None = None
    """Requests served."""

    prompt_tokens: Query | None = None
    """Prompt tokens."""

    hit_tokens: Query | None = None
    """Prompt tokens that needed no computing: device and lower tiers together."""

    eviction_passes: Query | None = None
    """Eviction passes below the device."""

    bytes_down: Query | None = None
    """Bytes written below the device."""

    errors: Query | None = None
    """Requests that failed."""

    new_session_roots: Query | None = None
    """Sessions that began."""

    ttft_buckets: Query | None = None
    """Cumulative buckets of the time to first token, with the label `le` (seconds)."""

    started_at: Query | None = None
    """Unix time at which the engine started."""


@user_written
class PrometheusSource:
    """How a Prometheus is asked."""

    address: Address | None = None
    """Such as `http://prometheus.monitoring:9090`."""

    preset: Preset | None = None
    """Whose metric names are asked for. Default: Agent."""

    queries: Queries = Queries()
    """PromQL in place of the preset's series. A policy's need an address of its own beside them."""

    matchers: Matchers = Field(default_factory=dict)
    """Label values that every series must have, such as `cluster: eu-1`. At the operator's address its own
    come first."""

    pod_label: LabelName | None = None
    """Label with the pod's name. Default: pod (standalone: instance)."""

    namespace_label: LabelName | None = None
    """Label with the pod's namespace. Default: namespace. A policy's needs an address of its own."""

    replica_label: LabelName | None = None
    """Label by which the two of a highly available pair differ; of their series one is used."""

    scrape_interval: PositiveDuration | None = None
    """How often agents are scraped: a counter this old still stands for a window's bound. Default: 15s."""

    scrape_delay: Duration | None = None
    """Samples younger than this are not used, for they may be incomplete. Default: 5s."""

    timeout: PositiveDuration | None = None
    """An answer must be whole within this. Default: 10s."""

    secret: SecretName | None = None
    """Credentials, extra headers and certificates."""


@user_written
class PyroscopeSource:
    """How a Pyroscope is asked for the share of samples in which the engine waits for its cache."""

    address: Address | None = None
    """Such as `http://pyroscope.monitoring:4040`."""

    profile_type: Annotated[str, Field(max_length=253)] | None = None
    """Default: process_cpu:cpu:nanoseconds:cpu:nanoseconds."""

    pod_label: LabelName | None = None
    """Label with the pod's name. Default: pod (standalone: instance)."""

    namespace_label: LabelName | None = None
    """Label with the pod's namespace. Default: namespace. A policy's needs an address of its own."""

    matchers: Matchers = Field(default_factory=dict)
    """Label values that every profile must have, such as `service_name: vllm`. At the operator's address its
    own come first."""

    load_frames: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=16)] | None = (
        None
    )
    """Parts of function names in which blocks are loaded from lower tiers."""

    store_frames: (
        Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=16)] | None
    ) = None
    """Parts of function names in which blocks are written down."""

    evict_frames: (
        Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=16)] | None
    ) = None
    """Parts of function names in which blocks are evicted."""

    timeout: PositiveDuration | None = None
    """An answer must be whole within this. Default: 10s."""

    secret: SecretName | None = None
    """Credentials, extra headers and certificates."""
