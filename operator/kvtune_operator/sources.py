"""Where a policy's figures come from: its own settings, then the operator's, then the documented defaults.

Used by the houses of both compositions. Opens nothing itself: what builds adapters is passed in.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

from kvtune_api.codec import canonical
from kvtune_api.errors import Problem, SpecError
from kvtune_api.policy import KVCachePolicy, MetricsSource
from kvtune_api.sources import Preset, PrometheusSource, PyroscopeSource, Queries
from kvtune_api.units import Duration
from kvtune_operator.ports import Metrics, Profiles, Sources

S = TypeVar("S", PrometheusSource, PyroscopeSource)

KEPT_POLICIES: Final = 1000
POD_LABEL: Final = "pod"
ADDRESS_LABEL: Final = "instance"
"""The label that names agents where they are addresses (standalone)."""

PROFILE_TYPE: Final = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
LOAD_FRAMES: Final = (
    "start_load_kv",
    "start_kv_transfers",
    "wait_for_layer_load",
    "prepare_load",
    "load_blocks",
)
STORE_FRAMES: Final = ("wait_for_save", "save_kv_layer", "prepare_store", "store_blocks")
EVICT_FRAMES: Final = ("evict",)
"""Functions of vLLM's connectors (distributed/kv_transfer/kv_connector/v1/base.py: start_load_kv,
wait_for_layer_load, save_kv_layer, wait_for_save), of its offloading (offloading_connector.py:
start_kv_transfers, prepare_store_kv; v1/kv_offload/cpu/manager.py: prepare_load, prepare_store, and the
policies' evict), and of an engine that calls its work load_blocks, store_blocks, evict_blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose source is asked: what its Secret and its agents belong to. Names are None in standalone."""

    policy: str
    namespace: str | None = None
    """Of the policy and its agents."""

    secret_of_policy: bool = True
    """Whether the Secret is named by the policy (its namespace), or by the operator's own settings."""

    address_of_policy: bool = True
    """Whether the policy chose the address, or the operator's own settings."""

    @property
    def quotes(self) -> bool:
        """Whether messages may quote an answer: never one from where a tenant of a cluster sent us."""
        return self.namespace is None or not self.address_of_policy


def resolved(
    policy: PrometheusSource, operator: PrometheusSource, *, pod_label: str = POD_LABEL
) -> PrometheusSource:
    """The policy's settings over the operator's, field by field, then the defaults.

    A Secret of the operator is used for the operator's own address only, or a policy could send it anywhere.
    At the operator's address the operator's matchers hold whatever the policy says.
    """
    found = _over(policy, operator)
    return replace(
        found,
        preset=found.preset or Preset.AGENT,
        queries=_queries(policy.queries, operator.queries),
        pod_label=found.pod_label or pod_label,
        namespace_label=found.namespace_label or "namespace",
        scrape_interval=found.scrape_interval or Duration("15s"),
        scrape_delay=found.scrape_delay or Duration("5s"),
        timeout=found.timeout or Duration("10s"),
    )


def resolved_profiles(
    policy: PyroscopeSource, operator: PyroscopeSource, *, pod_label: str = POD_LABEL
) -> PyroscopeSource:
    """The policy's settings over the operator's, as `resolved` does."""
    found = _over(policy, operator)
    return replace(
        found,
        profile_type=found.profile_type or PROFILE_TYPE,
        pod_label=found.pod_label or pod_label,
        namespace_label=found.namespace_label or "namespace",
        load_frames=found.load_frames or LOAD_FRAMES,
        store_frames=found.store_frames or STORE_FRAMES,
        evict_frames=found.evict_frames or EVICT_FRAMES,
        timeout=found.timeout or Duration("10s"),
    )


def _over(policy: S, operator: S) -> S:
    values = {
        item.name: getattr(policy, item.name) or getattr(operator, item.name) for item in fields(policy)
    }
    if policy.address is not None:
        values["secret"] = policy.secret
    else:
        values["matchers"] = {**policy.matchers, **operator.matchers}
    return replace(policy, **values)


def _place(place: Place, asked: PrometheusSource | PyroscopeSource) -> Place:
    return replace(
        place, secret_of_policy=asked.secret is not None, address_of_policy=asked.address is not None
    )


def _reaching_too_far(
    name: str, policy: PrometheusSource | PyroscopeSource, operator: PrometheusSource | PyroscopeSource | None
) -> list[Problem]:
    """What a policy may not choose where it is asked with the operator's address and credentials.

    There it would read what other namespaces have: what is asked for is the operator's to say.
    """
    if policy.address is not None:
        return []
    problems, where = [], f"spec.metrics.{name}"
    if isinstance(policy, PrometheusSource) and policy.queries != Queries():
        text = f"need an address of the policy's own: name it in {where}.address, or leave the queries out"
        problems.append(Problem(f"{where}.queries", text))
    if policy.namespace_label and operator and operator.address:
        text = (
            f"{policy.namespace_label!r}: is not for a policy to choose at the operator's address: "
            f"name an address in {where}.address, or leave it out"
        )
        problems.append(Problem(f"{where}.namespaceLabel", text))
    return problems


def _queries(policy: Queries, operator: Queries) -> Queries:
    return Queries(
        **{item.name: getattr(policy, item.name) or getattr(operator, item.name) for item in fields(policy)}
    )


class SourcesOf:
    """Build the sources of policies, and keep them for as long as their settings stay the same."""

    def __init__(
        self,
        *,
        scrape: Metrics,
        prometheus: Callable[[PrometheusSource, Place], Metrics],
        pyroscope: Callable[[PyroscopeSource, Place], Profiles],
        pod_label: str = POD_LABEL,
    ) -> None:
        """`prometheus` and `pyroscope` open an adapter for resolved settings."""
        self._scrape = scrape
        self._prometheus = prometheus
        self._pyroscope = pyroscope
        self._pod_label = pod_label
        self._kept: OrderedDict[tuple[str | None, str], tuple[str, Sources]] = OrderedDict()

    def sources(
        self,
        policy: KVCachePolicy,
        prometheus: PrometheusSource | None = None,
        pyroscope: PyroscopeSource | None = None,
    ) -> Sources:
        """The sources of a policy under the operator's defaults; raise `SpecError` naming the field."""
        metrics, profiles = self._resolved(policy, prometheus, pyroscope)
        key = f"{policy.spec.metrics.source}{canonical(metrics)}{canonical(profiles)}"
        whose = (policy.metadata.namespace, policy.metadata.name)
        held = self._kept.get(whose)
        if held is None or held[0] != key:
            held = (key, self._made(policy, metrics, profiles))
            self._kept[whose] = held
        self._kept.move_to_end(whose)
        while len(self._kept) > KEPT_POLICIES:
            self._kept.popitem(last=False)
        return held[1]

    def _resolved(
        self, policy: KVCachePolicy, prometheus: PrometheusSource | None, pyroscope: PyroscopeSource | None
    ) -> tuple[PrometheusSource, PyroscopeSource]:
        asked = policy.spec.metrics
        metrics = resolved(asked.prometheus, prometheus or PrometheusSource(), pod_label=self._pod_label)
        profiles = resolved_profiles(
            asked.pyroscope, pyroscope or PyroscopeSource(), pod_label=self._pod_label
        )
        problems = [
            *_reaching_too_far("prometheus", asked.prometheus, prometheus),
            *_reaching_too_far("pyroscope", asked.pyroscope, pyroscope),
        ]
        if asked.source is MetricsSource.PROMETHEUS and metrics.address is None:
            text = (
                "is needed for spec.metrics.source Prometheus: neither the policy nor the operator names one"
            )
            problems.append(Problem("spec.metrics.prometheus.address", text))
        if policy.spec.targets.stall is not None and profiles.address is None:
            text = "is needed for spec.targets.stall: neither the policy nor the operator names one"
            problems.append(Problem("spec.metrics.pyroscope.address", text))
        if problems:
            raise SpecError(*problems)
        return metrics, profiles

    def _made(self, policy: KVCachePolicy, metrics: PrometheusSource, profiles: PyroscopeSource) -> Sources:
        asked = policy.spec.metrics
        scraped = asked.source is MetricsSource.SCRAPE or metrics.address is None
        place = Place(policy=policy.metadata.name, namespace=policy.metadata.namespace)
        own = _place(place, asked.prometheus)
        profiled = _place(place, asked.pyroscope)
        return Sources(
            metrics=self._scrape if scraped else self._prometheus(metrics, own),
            profiles=None if profiles.address is None else self._pyroscope(profiles, profiled),
        )
