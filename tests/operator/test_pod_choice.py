"""Which pods are agents, why there are none, and which are about to leave: a table of every reason."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.names import Reason
from kvtune_api.policy import Selector
from kvtune_operator.adapters.pod_choice import choose, departures, shortfall
from kvtune_operator.adapters.pod_records import NodeSeen, PodSeen, node_of, pod_of
from tests.fakes.leaving import going, rolled
from tests.fakes.nodes_and_pods import READY_SINCE, Json, node, pod

NOW = datetime.fromisoformat(READY_SINCE) + timedelta(hours=1)
NODES = [
    node("n1", labels={"gpu": "h200"}),
    node("n2", labels={"gpu": "h200"}),
    node("n3", labels={"gpu": "l4"}),
]
H200 = {"nodes": {"matchLabels": {"gpu": "h200"}}}
CHAT = {"agents": {"matchLabels": {"app": "chat"}}}
APP = {"app": "chat"}


def selector(document: Json) -> Selector:
    return parse(Selector, document)


def pods(*found: Json) -> dict[str, PodSeen]:
    return {item["metadata"]["name"]: pod_of(item) for item in found}


def nodes(found: Sequence[Json] = tuple(NODES)) -> dict[str, NodeSeen]:
    return {item["metadata"]["name"]: node_of(item) for item in found}


def chosen(document: Json, *found: Json) -> list[str]:
    return sorted(item.name for item in choose(selector(document), pods(*found), nodes()).agents)


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({}, ["a", "b", "c"]),
        (H200, ["a", "b"]),
        (CHAT, ["b", "c"]),
        ({**H200, **CHAT}, ["b"]),
        ({"agents": {"matchLabels": {"app": "chat", "tier": "x"}}}, []),
    ],
)
def test_agents_are_chosen_by_labels_of_pod_and_node_and_by_their_port(
    document: Json, names: list[str]
) -> None:
    found = (
        pod("a", "n1"),
        pod("b", "n2", labels=APP),
        pod("c", "n3", labels=APP),
        pod("no-agent", "n1", port="http", labels=APP),
        pod("ended", "n1", labels=APP, phase="Failed"),
        pod("unready", "n9", labels={"app": "other"}, port=""),
    )

    assert chosen(document, *found) == names


def test_an_agent_may_be_a_sidecar_and_pods_that_are_not_ready_are_agents_too() -> None:
    sidecar = pod("s", port="http", ready=False)
    ports = [{"name": "kvtune", "containerPort": 9500}]
    sidecar["spec"]["initContainers"] = [{"name": "agent", "ports": ports}]

    found = choose(selector({}), pods(sidecar), nodes()).agents

    assert [(item.name, item.port, item.ready) for item in found] == [("s", 9500, False)]


def test_a_port_of_udp_is_no_agents_port() -> None:
    udp = pod("u")
    udp["spec"]["containers"][0]["ports"][0]["protocol"] = "UDP"

    assert chosen({}, udp) == []


SHORT: dict[str, tuple[Json, list[Json], Reason | None, str]] = {
    "an agent is ready": (H200, [pod("a"), pod("b", ready=False)], None, ""),
    "no node": (
        {"nodes": {"matchLabels": {"gpu": "b300", "zone": "a"}}},
        [pod("a")],
        Reason.NO_NODES,
        "no node has labels gpu=b300, zone=a (3 nodes)",
    ),
    "no pod": ({}, [], Reason.NO_PODS, "no pod in namespace x"),
    "no pod with labels": (CHAT, [pod("a")], Reason.NO_PODS, "no pod with labels app=chat in namespace x"),
    "no pod with labels on the nodes": (
        {**H200, **CHAT},
        [pod("a")],
        Reason.NO_PODS,
        "2 nodes have labels gpu=h200, no pod with labels app=chat in namespace x runs there",
    ),
    "pods on other nodes": (
        {"nodes": {"matchLabels": {"gpu": "l4"}}},
        [pod("a", "n1"), pod("b", "n2")],
        Reason.NO_PODS,
        "1 node has labels gpu=l4, no pod in namespace x runs there; 2 pods on other nodes: n1, n2",
    ),
    "pods without a node": (
        H200,
        [
            pod(
                "a",
                "",
                ready=False,
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient gpu.",
                    }
                ],
            )
        ],
        Reason.NO_PODS,
        "; 1 pod without a node: pod a: Unschedulable: 0/3 nodes are available: 3 Insufficient gpu.",
    ),
    "another port": (
        {},
        [pod("a", port="http"), pod("b", port="metrics"), pod("c", port="http")],
        Reason.NO_PORT,
        "3 pods, none has a container port named kvtune; they have: http, metrics",
    ),
    "a port without a name": (
        {},
        [pod("a", port="9402")],
        Reason.NO_PORT,
        "1 pod, none has a container port named kvtune; they have: 9402",
    ),
    "no port at all": ({}, [pod("a", port="")], Reason.NO_PORT, "they have: no ports"),
    "none ready": (
        {},
        [
            pod("b", ready=False, phase="Pending", waiting="ContainerCreating"),
            pod("c", ready=False, phase="Pending", waiting="ContainerCreating"),
            pod("a", ready=False, waiting="CrashLoopBackOff"),
        ],
        Reason.PODS_NOT_READY,
        "3 pods, none is ready: pod b and 1 more: ContainerCreating; pod a: CrashLoopBackOff",
    ),
    "none ready, nothing said": (
        {},
        [pod("a", ready=False)],
        Reason.PODS_NOT_READY,
        "1 pod, none is ready: pod a: running, but not ready",
    ),
}


@pytest.mark.parametrize("case", SHORT)
def test_why_there_is_no_agent(case: str) -> None:
    document, found, reason, message = SHORT[case]
    asked = selector(document)

    told = shortfall(asked, "x", choose(asked, pods(*found), nodes()), nodes())

    if reason is None:
        assert told is None
    else:
        assert told is not None
        assert told[0] is reason
        assert message in told[1]
        assert len(told[1]) < 500


def test_ten_thousand_pods_make_no_long_message() -> None:
    found = [pod(f"p{n}", "n3", ready=False, waiting=f"Reason{n}", port="") for n in range(1000)]
    asked = selector(H200)

    for document in (H200, {}, CHAT):
        asked = selector(document)
        told = shortfall(asked, "x", choose(asked, pods(*found), nodes()), nodes())
        assert told is not None
        assert len(told[1]) < 500


def target(reason: str) -> list[Json]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "because"}]


def at(**before: float) -> str:
    moment = NOW - timedelta(**before)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


LEAVING: dict[str, tuple[Json, str | None]] = {
    "a ready pod": (pod("a"), None),
    "deletion": (pod("a", deleted=READY_SINCE), "its pod is being deleted"),
    "an eviction": (
        pod("a", conditions=target("EvictionByEvictionAPI")),
        "its pod is being evicted (EvictionByEvictionAPI)",
    ),
    "an eviction by the node": (
        pod("a", conditions=target("TerminationByKubelet")),
        "its pod is evicted by its node (TerminationByKubelet)",
    ),
    "an eviction that was taken back": (
        pod("a", conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "X"}]),
        None,
    ),
    "a cordon": (pod("a", "cordoned"), "node cordoned is cordoned"),
    "a dead node": (pod("a", "dead"), "node dead is not ready"),
    "a node that was deleted": (pod("a", "gone"), "node gone is gone"),
    "not ready for an hour": (pod("a", ready=False, waiting="CrashLoopBackOff"), "its pod is not ready"),
    "not ready for a moment": (pod("a", ready=False, since=at(seconds=14)), None),
    "not ready for longer": (pod("a", ready=False, since=at(seconds=16)), "its pod is not ready"),
    "not started": (pod("a", ready=False, phase="Pending", since=at(seconds=1)), "its pod is not ready"),
}


@pytest.mark.parametrize("case", LEAVING)
def test_why_an_agent_leaves(case: str) -> None:
    found, why = LEAVING[case]
    seen = nodes([node("n1"), node("cordoned", unschedulable=True), node("dead", ready=False)])

    told = {name: leaving.why for name, leaving in departures([pod_of(found)], seen, NOW).items()}

    assert told == ({} if why is None else {"a": why})


def test_without_a_sight_of_nodes_only_pods_say_who_leaves() -> None:
    assert departures([pod_of(pod("a", "n1")), pod_of(pod("b", "n2", deleted=READY_SINCE))], {}, NOW) == {
        "b": going()
    }


def version(name: str, revision: str, made: str, **more: Any) -> PodSeen:
    labels = {"controller-revision-hash": revision}
    return pod_of(pod(name, owner="agents", labels=labels, created=made, **more))


def test_pods_of_an_older_version_are_about_to_be_replaced() -> None:
    found = [version("a", "1", at(days=9)), version("b", "1", at(days=9)), version("c", "2", at(minutes=1))]

    assert departures(found, {}, NOW) == {
        "a": rolled(),
        "b": rolled(),
    }


def test_a_rollout_that_has_not_moved_for_long_is_none() -> None:
    found = [version("a", "1", at(days=9)), version("c", "2", at(minutes=20))]

    assert departures(found, {}, NOW) == {}


def test_versions_of_different_controllers_are_no_rollout() -> None:
    other = pod_of(pod("z", owner="others", labels={"controller-revision-hash": "9"}, created=at(minutes=1)))

    assert departures([version("a", "1", at(days=9)), other], {}, NOW) == {}
