"""Events of Kubernetes on policies and experiments: the port `Events` on an API server.

Equal events (object, reason, message) of an hour are one object whose count grows, written at most once a
minute; its name follows from them, so that a restarted process goes on counting. An event that cannot be
written is logged and counted, and fails nothing: the namespace may be going away.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import API_VERSION, EXPERIMENTS, Reason
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import collection
from kvtune_operator.ports import Events, Stored
from kvtune_tuner.model import Event

Json = dict[str, Any]

log = logging.getLogger(__name__)

COMPONENT = "kvtune-operator"
SAME_FOR = timedelta(hours=1)
"""The API server keeps an event for an hour, too."""

COUNTED_EVERY = timedelta(minutes=1)
KEPT = 2000
MESSAGE_BYTES = 1024
"""More is refused by the API server."""

OF_EXPERIMENTS = frozenset(
    {
        Reason.EXPERIMENT_STARTED,
        Reason.EXPERIMENT_ENDED,
        Reason.GUARDRAIL_TRIPPED,
        Reason.PROMOTED,
        Reason.LEASE_LAPSED,
        Reason.EPOCH_DROPPED,
        Reason.AWAITING_APPROVAL,
        Reason.ROLLBACK_LATE,
        Reason.OUT_OF_SYNC,
        Reason.SUPERSEDED,
        Reason.AGENT_LEFT,
    }
)
"""Reasons of events that tell an experiment's story: they are shown there, too."""

OF_ENDS = frozenset({Reason.EXPERIMENT_ENDED, Reason.PROMOTED, Reason.ROLLBACK_LATE})
"""Of these: told when the policy's status names the experiment no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """An event that was written."""

    path: str
    first: datetime
    count: int
    written: datetime
    """When the count was written last."""


class KubernetesEvents(Events):
    """Implement `ports.Events` as core/v1 Events, told by `component`."""

    def __init__(self, kube: Kube, component: str = COMPONENT) -> None:
        self._kube = kube
        self._component = component
        self._known: OrderedDict[tuple[str, str, str], _Known] = OrderedDict()
        self._experiments: OrderedDict[str, _About] = OrderedDict()
        """The newest experiment of each policy (by UID)."""

        self.failed = 0
        """Events that could not be written."""

    async def record(self, policy: Stored, events: Sequence[Event], now: datetime) -> None:
        """Record the events on the policy, and on its experiment those that tell of one. Raises nothing."""
        metadata = policy.metadata
        about = _About(
            kind="KVCachePolicy",
            name=metadata.name,
            namespace=metadata.namespace or "default",
            uid=metadata.uid or "",
        )
        for event in events:
            await self._tried(about, event, now)
            if event.reason in OF_EXPERIMENTS:
                experiment = await self._experiment(policy, about, event.reason)
                if experiment is not None:
                    await self._tried(experiment, event, now)

    async def _tried(self, about: _About, event: Event, now: datetime) -> None:
        """Write one event; when that fails it is logged, and written anew when it comes again."""
        try:
            await self._recorded(about, event, now)
        except (Unavailable, Conflict) as error:
            self.failed += 1
            fields = {"object": about.name, "reason": event.reason, "why": str(error)}
            log.warning("event not written", extra=fields)

    async def _recorded(self, about: _About, event: Event, now: datetime) -> None:
        key = (about.uid, str(event.reason), event.message)
        known = self._known.pop(key, None)
        if known is None or now - known.first >= SAME_FOR:
            known = await self._created(about, event, now)
        else:
            known = replace(known, count=known.count + 1)
            if now - known.written >= COUNTED_EVERY:
                known = await self._counted(known, now) or await self._created(about, event, now)
        self._known[key] = known
        while len(self._known) > KEPT:
            self._known.popitem(last=False)

    async def _created(self, about: _About, event: Event, now: datetime) -> _Known:
        """Write a new event, or count on one that an earlier process wrote in this hour."""
        folder = f"/api/v1/namespaces/{about.namespace}/events"
        body = _body(about, event, now, self._component)
        path = f"{folder}/{body['metadata']['name']}"
        try:
            await self._kube.create(folder, body)
        except Conflict:
            held = await self._kube.get(path) or {}
            earlier = _Known(path=path, first=now, count=int(held.get("count") or 0) + 1, written=now)
            return await self._counted(earlier, now) or earlier
        return _Known(path=path, first=now, count=1, written=now)

    async def _counted(self, known: _Known, now: datetime) -> _Known | None:
        """Write the count; None when the event has gone."""
        steps: list[Json] = [
            {"op": "add", "path": "/count", "value": known.count},
            {"op": "add", "path": "/lastTimestamp", "value": _text(now)},
        ]
        return replace(known, written=now) if await self._kube.patch(known.path, steps) else None

    async def _experiment(self, policy: Stored, about: _About, reason: Reason) -> _About | None:
        """The experiment that an event is about: the running one, or for its end the one that ran last."""
        name = policy.status.experiment if policy.status else None
        held = self._experiments.get(about.uid)
        if name is None:
            return held if reason in OF_ENDS else None
        if held is not None and held.name == name:
            return held
        path = f"{collection(about.namespace, EXPERIMENTS)}/{name}"
        try:
            raw = await self._kube.get(path)
        except Unavailable as error:
            log.warning("experiment not read for its event", extra={"object": name, "why": str(error)})
            return None
        if raw is None:
            return None
        uid = str(raw["metadata"]["uid"])
        found = _About(kind="KVCacheExperiment", name=name, namespace=about.namespace, uid=uid)
        self._experiments[about.uid] = found
        self._experiments.move_to_end(about.uid)
        while len(self._experiments) > KEPT:
            self._experiments.popitem(last=False)
        return found


def _body(about: _About, event: Event, now: datetime, component: str) -> Json:
    hour = int(now.timestamp() // SAME_FOR.total_seconds())
    key = f"{about.uid}|{event.reason}|{event.message}|{hour}"
    name = f"{about.name[:200]}.{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        },
        "reason": str(event.reason),
        "message": event.message.encode()[:MESSAGE_BYTES].decode("utf-8", "ignore"),
        "type": str(event.type),
        "source": {"component": component},
        "reportingComponent": component,
        "count": 1,
        "firstTimestamp": _text(now),
        "lastTimestamp": _text(now),
    }


def _text(moment: datetime) -> str:
    """RFC 3339, whole seconds: these fields of an event take no others."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
