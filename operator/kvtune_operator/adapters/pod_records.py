"""What is kept of a node and of a pod: small immutable records, read from the API's JSON at the edge."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvtune_api.names import AGENT_PORT

Json = dict[str, Any]

REVISION_LABELS = ("controller-revision-hash", "pod-template-hash")
"""By which DaemonSets, StatefulSets and Deployments tell the pods of two versions apart."""

FINISHED = frozenset({"Succeeded", "Failed"})
TROUBLE_SHOWN = 120
BACK_OFF = "CrashLoopBackOff"
"""Its message is left out: it counts the seconds, and would be another one every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node as far as pools are concerned."""

    name: str
    labels: Mapping[str, str]
    unschedulable: bool
    """Cordoned: by a drain, or by hand."""

    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod as far as pools are concerned."""

    name: str
    uid: str
    created: str
    """RFC 3339."""

    labels: Mapping[str, str]
    owner: str
    """Kind and name of its controller, or empty."""

    revision: str
    """Hash of the version of the template that it was made from, or empty."""

    node: str
    ip: str
    port: int | None
    """Number of the container port named `kvtune`; None: it has none, and is no agent."""

    port_names: tuple[str, ...]
    phase: str
    ready: bool
    ready_since: str
    """When `ready` became what it is, RFC 3339, or empty."""

    leaving: bool
    """It is being deleted."""

    disruption: str
    """Reason of its condition DisruptionTarget: it is about to be evicted; or empty."""

    trouble: str
    """Why it is not ready, as far as the pod itself says, or empty."""

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in FINISHED


def node_of(found: Json) -> NodeSeen:
    """The record of a node."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    return NodeSeen(
        name=metadata["name"],
        labels=_labels(metadata),
        unschedulable=bool(spec.get("unschedulable")),
        ready=_condition(status, "Ready").get("status") == "True",
    )


def pod_of(found: Json) -> PodSeen:
    """The record of a pod."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    labels, ports = _labels(metadata), tuple(_ports(spec))
    ready, disruption = _condition(status, "Ready"), _condition(status, "DisruptionTarget")
    is_ready = ready.get("status") == "True"
    return PodSeen(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        created=metadata.get("creationTimestamp") or "",
        labels=labels,
        owner=sys.intern(_owner(metadata)),
        revision=next((labels[name] for name in REVISION_LABELS if name in labels), ""),
        node=sys.intern(spec.get("nodeName") or ""),
        ip=status.get("podIP") or "",
        port=next((number for name, number in ports if name == AGENT_PORT), None),
        port_names=tuple(sys.intern(name) for name, _ in ports),
        phase=sys.intern(status.get("phase") or "Pending"),
        ready=is_ready,
        ready_since=ready.get("lastTransitionTime") or "",
        leaving=metadata.get("deletionTimestamp") is not None,
        disruption=_disruption(disruption),
        trouble="" if is_ready else _trouble(status),
    )


def _labels(metadata: Json) -> Mapping[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in (metadata.get("labels") or {}).items()}


def _owner(metadata: Json) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((f"{owner['kind']} {owner['name']}" for owner in owners if owner.get("controller")), "")


def _ports(spec: Json) -> Iterable[tuple[str, int]]:
    """Names and numbers of TCP ports, those of sidecars (init containers) too."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("protocol", "TCP") == "TCP":
                yield port.get("name") or str(port["containerPort"]), port["containerPort"]


def _condition(status: Json, kind: str) -> Json:
    return next((found for found in status.get("conditions") or () if found.get("type") == kind), {})


def _disruption(condition: Json) -> str:
    return condition.get("reason") or "no reason given" if condition.get("status") == "True" else ""


def _trouble(status: Json) -> str:
    """Why a pod is not ready: its scheduling, its phase, or the first container that is not ready."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _said(scheduled)
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for container in containers:
        state = container.get("state") or {}
        if waiting := state.get("waiting"):
            return BACK_OFF if waiting.get("reason") == BACK_OFF else _said(waiting)
        ended = state.get("terminated")
        if ended and (ended.get("exitCode") or container in (status.get("containerStatuses") or ())):
            return f"container {container.get('name')} ended with exit code {ended.get('exitCode')}"
    if status.get("reason"):
        return _said(status)
    return "running, but not ready" if status.get("phase") == "Running" else status.get("phase") or "Pending"


def _said(part: Json) -> str:
    """Reason and message of a condition or state."""
    text = ": ".join(word for word in (part.get("reason"), part.get("message")) if word)
    text = " ".join(text.split()) or "no reason given"
    return text if len(text) <= TROUBLE_SHOWN else text[: TROUBLE_SHOWN - 3] + "..."
