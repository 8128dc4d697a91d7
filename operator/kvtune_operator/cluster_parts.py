"""The parts of an operator's work: one reconciler per policy over shared connections. A composition root.

Made by cluster.py once the lease is held. No decisions here.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import chain

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import POLICIES, Reason
from kvtune_api.operator_config import AgentAccess, OperatorConfig
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Report
from kvtune_operator.adapters.agent_token import SecretToken
from kvtune_operator.adapters.fetch import Fetcher, Trust, trusting
from kvtune_operator.adapters.inventory import Inventory
from kvtune_operator.adapters.kept import Timer
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kube_errors import Absent
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
from kvtune_operator.adapters.kubernetes_forms import Json, collection, policy_in
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_operator.adapters.kubernetes_orphans import free_orphans
from kvtune_operator.adapters.pods import PodAgents
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.adapters.source_adapters import SourceAdapters
from kvtune_operator.admitted import AdmittedObjects
from kvtune_operator.clock import WallClock
from kvtune_operator.cluster_settings import ClusterSettings
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.fencing import believed
from kvtune_operator.handlers import mark_of
from kvtune_operator.house import ClusterHouse, Key, Rules
from kvtune_operator.observed import ObservedAgents, ObservedMetrics, ObservedObjects, Pulse
from kvtune_operator.policy_tasks import Mark
from kvtune_operator.ports import Clock, Sources, Stored
from kvtune_operator.reconcile import InCharge, Reconciler
from kvtune_operator.sources import SourcesOf
from kvtune_tuner.model import Event, EventType

log = logging.getLogger(__name__)

COMPONENT = "kvtune-operator"
TRUST_SECONDS = 60.0
"""Authorities are read again after this."""

ASKED_AT_ONCE = 10
"""Policies whose agents are asked for their tokens at the start."""

CRDS_MISSING = "the CRDs of kvtune are missing: kubectl apply -f crds/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A policy of a list; `stored` is None where it cannot be read."""

    key: Key
    mark: Mark
    stored: Stored | None


class Parts:
    """What all policies of one operator share, and what each one gets."""

    def __init__(
        self,
        *,
        kube: Kube,
        fetcher: Fetcher,
        settings: ClusterSettings,
        clock: WallClock,
        rules: Rules,
        telemetry: ClusterTelemetry,
        pulse: Pulse,
    ) -> None:
        self._kube = kube
        self._fetcher = fetcher
        self._settings = settings
        self._clock = clock
        self._rules = rules
        self._telemetry = telemetry
        self._pulse = pulse
        where = f"ConfigMap {settings.config_map} in namespace {settings.namespace}"
        self.house = ClusterHouse(rules, self._sources, where=where)
        self._inventory = Inventory(kube, Timer(monotonic=clock.monotonic, sleep=clock.sleep))
        self._events = KubernetesEvents(kube, COMPONENT)
        self._adapters = SourceAdapters(
            label_of=_itself,
            now=clock.now,
            monotonic=clock.monotonic,
            secrets=kube,
            operator_namespace=settings.namespace,
        )
        self._sources_of: dict[Key, SourcesOf] = {}
        self._tokens: dict[str, SecretToken] = {}

    async def close(self) -> None:
        """Close what sources share."""
        await self._adapters.close()

    async def policies(self) -> tuple[Listed, ...]:
        """All policies that are served. Raises `Unavailable`, saying so where the CRDs are missing."""
        roots = [collection(name, POLICIES) for name in self._settings.watch_namespaces]
        try:
            found = await asyncio.gather(*(self._kube.listed(root) for root in roots or [_EVERYWHERE]))
        except Absent as error:
            raise Unavailable(CRDS_MISSING) from error
        return tuple(self._listed(raw) for raw in chain.from_iterable(items for items, _ in found))

    def _listed(self, raw: Json) -> Listed:
        """One policy of a list; what of it cannot be read must not keep the others from being served."""
        metadata = raw["metadata"]
        key = (metadata["namespace"], metadata["name"])
        stored: Stored | None = None
        try:
            stored = policy_in(raw)
            self.house.saw(stored)
        except Unavailable as error:
            log.warning("policy cannot be read", extra={"policy": "/".join(key), "error": str(error)})
        except Exception:  # a bug in reading one policy must not end the others
            log.exception("policy not read by a bug", extra={"policy": "/".join(key)})
        return Listed(key=key, mark=mark_of(metadata), stored=stored)

    async def free_orphans(self) -> None:
        """Free experiments whose policy was freed by hand while nobody ran; what fails is logged."""
        for namespace in self._settings.watch_namespaces or (None,):
            try:
                freed = await free_orphans(self._kube, namespace)
            except (Unavailable, Conflict) as error:
                log.warning("orphaned experiments not freed", extra={"error": str(error)})
                continue
            if freed:
                log.info("orphaned experiments freed", extra={"experiments": ", ".join(freed)})

    async def highest_token(self, listed: tuple[Listed, ...]) -> int:
        """The highest believable fencing token that any agent reports; who does not answer is left out."""
        gate = asyncio.Semaphore(ASKED_AT_ONCE)

        async def of(policy: KVCachePolicy) -> int:
            async with gate, self._agents(policy.metadata.namespace or "", self._clock) as agents:
                try:
                    reports = await agents.reports((await agents.discover(policy)).agents)
                except Unavailable as error:
                    log.warning("tokens not known", extra={"policy": policy.metadata.name, "why": str(error)})
                    return 0
            held = {
                name: report.running.token for name, report in reports.items() if isinstance(report, Report)
            }
            return believed(held, self._clock.unix_milliseconds())

        valid = [item.stored for item in listed if isinstance(item.stored, KVCachePolicy)]
        return max(await asyncio.gather(*(of(policy) for policy in valid)), default=0)

    @contextlib.asynccontextmanager
    async def reconciler(
        self, key: Key, clock: Clock, token: int, in_charge: InCharge
    ) -> AsyncIterator[Reconciler]:
        """The reconciler of one policy, for as long as its task lives."""
        namespace, _ = key
        async with self._agents(namespace, clock) as agents:
            scrape = ScrapeMetrics(self._fetcher, address_of=agents.address_of)
            self._sources_of[key] = SourcesOf(
                scrape=scrape, prometheus=self._adapters.prometheus, pyroscope=self._adapters.pyroscope
            )
            try:
                yield Reconciler(
                    agents=ObservedAgents(agents, self._telemetry),
                    house=self.house,
                    objects=self._objects(namespace),
                    events=self._events,
                    clock=clock,
                    token=token,
                    settings=self._settings,
                    in_charge=in_charge,
                )
            finally:
                del self._sources_of[key]

    async def tell(self, policy: Stored, event: Event) -> None:
        """Record an event that no plan has; what fails is logged by the recorder."""
        await self._events.record(policy, (event,), self._clock.now())

    async def tell_bug(self, key: Key, error: Exception) -> None:
        """Leave an event at a policy whose step failed by a bug; never fails."""
        message = f"step failed by a bug ({type(error).__name__}: {error}), it is tried again; see the log"
        try:
            stored = await self._objects(key[0]).policy(key[1])
            if stored is not None:
                event = Event(type=EventType.WARNING, reason=Reason.BUG, message=message[:512])
                await self.tell(stored, event)
        except Unavailable as failed:
            log.warning("event not recorded", extra={"policy": key[1], "error": str(failed)})

    def _objects(self, namespace: str) -> ObservedObjects:
        stored = KubernetesObjects(self._kube, namespace, tell=self.tell)
        admitted = AdmittedObjects(stored, self.house, namespace)
        return ObservedObjects(admitted, self._pulse, self._telemetry, scope=f"{namespace}/")

    @contextlib.asynccontextmanager
    async def _agents(self, namespace: str, clock: Clock) -> AsyncIterator[PodAgents]:
        token = self._tokens.setdefault(namespace, SecretToken(self._kube, namespace, self._clock.monotonic))
        async with self._inventory.of(namespace) as view:
            yield PodAgents(view, self._fetcher, token, rivals=self.house, access=self._access, clock=clock)

    def _access(self) -> AgentAccess:
        return self._rules.config.agents

    def _sources(self, policy: KVCachePolicy, config: OperatorConfig) -> Sources:
        key = (policy.metadata.namespace or "", policy.metadata.name)
        found = self._sources_of[key].sources(policy, config.prometheus, config.pyroscope)
        return Sources(metrics=ObservedMetrics(found.metrics, self._telemetry), profiles=found.profiles)


class TrustOf:
    """Whom to believe over https, by the operator's settings of the moment."""

    def __init__(self, rules: Rules, clock: WallClock) -> None:
        self._rules = rules
        self._clock = clock
        self._kept: tuple[float, AgentAccess, Trust] | None = None

    def __call__(self) -> Trust:
        """The trust; raise `Unavailable` naming the file that cannot be read."""
        access, now = self._rules.config.agents, self._clock.monotonic()
        kept = self._kept
        if kept is None or kept[1] != access or now - kept[0] > TRUST_SECONDS:
            context = trusting(access.ca_file) if access.tls else None
            kept = self._kept = (now, access, Trust(context=context, server_name=access.server_name))
        return kept[2]


_EVERYWHERE = "/apis/kvtune.dev/v1alpha1/kvcachepolicies"


def _itself(pod: str) -> str:
    return pod
