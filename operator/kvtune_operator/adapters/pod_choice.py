"""Which pods are a policy's agents, which of them are about to leave, and why there are none. Pure.

Called by pods.py with what the inventory holds. A policy selects pods of its own namespace that have a
container port named `kvtune`, carry the labels of `selector.agents`, and run on nodes with the labels of
`selector.nodes`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kvtune_api.labels import LabelSelector
from kvtune_api.names import AGENT_PORT, Reason
from kvtune_api.policy import Selector
from kvtune_operator.adapters.pod_records import NodeSeen, PodSeen
from kvtune_tuner.model import Departure, Leaving

UNREADY_GRACE = timedelta(seconds=15)
"""A running pod that has not been ready for less is not called leaving: probes miss a beat now and then."""

ROLLOUT_SPAN = timedelta(minutes=15)
"""Pods of an older version count as about to be replaced for so long after the newest was made.

Longer than a pod takes to start. Not for ever: a DaemonSet of strategy OnDelete keeps old pods for good.
"""

BY_KUBELET = "TerminationByKubelet"
"""An eviction by the node itself, for want of memory or disk: what the agent runs may be the cause."""

PODS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How far the pods of a namespace fit a selector; each list holds part of the one before."""

    labelled: tuple[PodSeen, ...]
    """With the labels of `selector.agents`, not ended."""

    placed: tuple[PodSeen, ...]
    """On nodes with the labels of `selector.nodes`."""

    agents: tuple[PodSeen, ...]
    """With an agent's port."""


def choose(selector: Selector, pods: Mapping[str, PodSeen], nodes: Mapping[str, NodeSeen] | None) -> Choice:
    """Apply a selector; `nodes` is None where they may not be seen (then it must not choose by them)."""
    wanted = selector.nodes.match_labels
    labelled = tuple(pod for pod in pods.values() if not pod.finished and _fits(selector.agents, pod.labels))
    placed = labelled
    if wanted:
        known = nodes or {}
        placed = tuple(
            pod for pod in labelled if pod.node in known and _fits(selector.nodes, known[pod.node].labels)
        )
    return Choice(
        labelled=labelled, placed=placed, agents=tuple(pod for pod in placed if pod.port is not None)
    )


def still_agents(names: Iterable[str], pods: Mapping[str, PodSeen]) -> tuple[PodSeen, ...]:
    """The pods of these names that have an agent's port and have not ended, whatever their labels."""
    found = (pods[name] for name in names if name in pods)
    return tuple(pod for pod in found if pod.port is not None and not pod.finished)


def shortfall(
    selector: Selector, namespace: str, choice: Choice, nodes: Mapping[str, NodeSeen] | None
) -> tuple[Reason, str] | None:
    """Why there is no agent, or none that is ready; None: there is one."""
    fitting = [node for node in (nodes or {}).values() if _fits(selector.nodes, node.labels)]
    if selector.nodes.match_labels and not fitting:
        return Reason.NO_NODES, f"no node has {_labels(selector.nodes)} ({len(nodes or {})} nodes)"
    if not choice.placed:
        return Reason.NO_PODS, _no_pods(selector, namespace, choice, len(fitting))
    if not choice.agents:
        count, names = len(choice.placed), sorted({n for pod in choice.placed for n in pod.port_names})
        have = ", ".join(names[:10]) or "no ports"
        return (
            Reason.NO_PORT,
            f"{_pods(count)}, none has a container port named {AGENT_PORT}; they have: {have}",
        )
    if any(pod.ready for pod in choice.agents):
        return None
    return Reason.PODS_NOT_READY, f"{_pods(len(choice.agents))}, none is ready: {_troubles(choice.agents)}"


def departures(agents: Sequence[PodSeen], nodes: Mapping[str, NodeSeen], now: datetime) -> dict[str, Leaving]:
    """The agents that are about to leave or are not ready, and why; `nodes` may be empty (not seen)."""
    newest = _newest_of_rollouts(agents, now)
    found = {}
    for pod in agents:
        if leaving := _departs(pod, nodes, newest.get(pod.owner), now):
            found[pod.name] = leaving
    return found


def _departs(
    pod: PodSeen, nodes: Mapping[str, NodeSeen], newest: PodSeen | None, now: datetime
) -> Leaving | None:
    """Why one agent leaves: the surest sign first."""
    node = nodes.get(pod.node)
    if pod.disruption == BY_KUBELET:  # perhaps for want of memory, which the candidate may have taken
        return _leaving(Departure.NOT_READY, f"its pod is evicted by its node ({pod.disruption})")
    if pod.disruption:
        return _leaving(Departure.GOING, f"its pod is being evicted ({pod.disruption})")
    if pod.leaving:
        return _leaving(Departure.GOING, "its pod is being deleted")
    if node is not None and node.unschedulable:
        return _leaving(Departure.GOING, f"node {node.name} is cordoned")
    if nodes and pod.node and node is None:
        return _leaving(Departure.GOING, f"node {pod.node} is gone")
    if node is not None and not node.ready:
        return _leaving(Departure.NOT_READY, f"node {node.name} is not ready")
    if not pod.ready and not (pod.phase == "Running" and _within(pod.ready_since, now, UNREADY_GRACE)):
        return _leaving(Departure.NOT_READY, "its pod is not ready")
    if newest is not None and pod.revision != newest.revision:
        return _leaving(Departure.ROLLOUT, f"rollout of {pod.owner}")
    return None


def _leaving(kind: Departure, why: str) -> Leaving:
    return Leaving(kind=kind, why=why)


def _newest_of_rollouts(agents: Iterable[PodSeen], now: datetime) -> dict[str, PodSeen]:
    """The newest pod of every controller that replaces its pods just now."""
    by_owner: dict[str, list[PodSeen]] = defaultdict(list)
    for pod in agents:
        if pod.owner and pod.revision:
            by_owner[pod.owner].append(pod)
    found = {}
    for owner, pods in by_owner.items():
        newest = max(pods, key=lambda pod: (pod.created, pod.name))
        if len({pod.revision for pod in pods}) > 1 and _within(newest.created, now, ROLLOUT_SPAN):
            found[owner] = newest
    return found


def _within(moment: str, now: datetime, span: timedelta) -> bool:
    """Whether an RFC 3339 moment is at most so long ago; False when there is none."""
    try:
        return now - datetime.fromisoformat(moment) < span
    except (ValueError, TypeError):
        return False


def _no_pods(selector: Selector, namespace: str, choice: Choice, fitting: int) -> str:
    what = f"no pod with {_labels(selector.agents)}" if selector.agents.match_labels else "no pod"
    if not selector.nodes.match_labels:
        return f"{what} in namespace {namespace}"
    there = "1 node has" if fitting == 1 else f"{fitting} nodes have"
    text = f"{there} {_labels(selector.nodes)}, {what} in namespace {namespace} runs there"
    elsewhere = sorted({pod.node for pod in choice.labelled if pod.node})
    waiting = [pod for pod in choice.labelled if not pod.node]
    if elsewhere:
        shown = ", ".join(elsewhere[:PODS_SHOWN]) + (", ..." if len(elsewhere) > PODS_SHOWN else "")
        text += f"; {_pods(len(choice.labelled) - len(waiting))} on other nodes: {shown}"
    if waiting:
        text += f"; {_pods(len(waiting))} without a node: {_troubles(waiting)}"
    return text


def _troubles(pods: Sequence[PodSeen]) -> str:
    """Pods by what is wrong with them, a few of them by name."""
    by_trouble: dict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.name):
        by_trouble[pod.trouble or pod.phase].append(pod.name)
    parts = []
    for trouble, names in sorted(by_trouble.items(), key=lambda item: (-len(item[1]), item[0]))[:PODS_SHOWN]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        parts.append(f"pod {names[0]}{more}: {trouble}")
    return "; ".join(parts)


def _fits(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.match_labels.items())


def _labels(selector: LabelSelector) -> str:
    return "labels " + ", ".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
