"""Why no agents are found, said by the real operator: a condition, `waitingFor`, one event; gone when mended.

One operator serves the policies of all tests here at once; each has agents of its own.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.farm import Herd
from tests.cluster.operators import Operator, Policies, rights
from tests.cluster.shared import Object, Scene, scene
from tests.cluster.web import Page, served
from tests.e2e.processes import until
from tools.controlplane.access import Access

CASES = ("nonode", "nopod", "unready", "noport", "otherport", "page", "reused", "silent")


@pytest.fixture(scope="module")
def shared(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    herds = [Herd(name=name, agents=2) for name in CASES]
    with scene(control_plane, tmp_path_factory.mktemp("discovery"), *herds) as made:
        yield made
        assert made.operator.stop() == 0


def apply(
    shared: Scene, name: str, *, agents: dict[str, str] | None = None, nodes: dict[str, str] | None = None
) -> None:
    """Create a policy for the agents of a herd, by more labels where they are given."""
    selector: Object = {"agents": {"matchLabels": {"app": name, **(agents or {})}}}
    if nodes:
        selector["nodes"] = {"matchLabels": nodes}
    shared.policies.apply(name, selector=selector, mode="Observe")


def told(shared: Scene, name: str, reason: str) -> str:
    """What is said of a policy's agents: in a condition, in `waitingFor`, by kubectl, and by one event."""
    condition = shared.condition(name, "AgentsReady", "False", reason)
    message = str(condition["message"])
    status = shared.status(name)
    assert status["phase"] == "Idle"
    assert condition["observedGeneration"] == 1
    if reason != "Unreachable":
        assert status["waitingFor"] == message[:500]
    assert shared.columns(name)["WAITING"].startswith(status["waitingFor"][:40])
    shared.ticks(3)
    events = shared.events(name, reason)
    assert len(events) == 1 and events[0]["count"] == 1, events
    assert events[0]["type"] == "Warning"
    assert events[0]["message"] == message
    return message


def mended(shared: Scene, name: str) -> None:
    """Wait until both agents are found."""
    shared.condition(name, "AgentsReady", "True", "Ready")
    assert shared.status(name)["agentsReady"] == 2


def again(
    shared: Scene, name: str, *, port: int | None = None, called: str = "kvtune", ip: str | None = None
) -> None:
    """Delete a herd's pods and write them anew, with another port, port name or address."""
    for pod in (f"{name}-1", f"{name}-2"):
        old = shared.access.call("GET", f"{shared.farm.pods_path}/{pod}")
        shared.farm.remove_pod(pod)
        ports = [{"name": called, "containerPort": port or shared.farm.port}]
        body = {
            "metadata": {"name": pod, "labels": old["metadata"]["labels"]},
            "spec": {
                "nodeName": shared.farm.node,
                "containers": [{"name": "agent", "image": "none", "ports": ports}],
            },
        }
        shared.access.call("POST", shared.farm.pods_path, body)
        status(shared, pod, ip or old["status"]["podIP"])


def status(shared: Scene, pod: str, ip: str, *, ready: bool = True) -> None:
    """Write a pod's status as its kubelet would."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    found = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
    shared.access.call("PATCH", f"{shared.farm.pods_path}/{pod}/status", {"status": found})


def test_no_node_has_the_labels(shared: Scene) -> None:
    pool = {"pool": f"{shared.namespace}-later"}
    apply(shared, "nonode", nodes=pool)
    assert "no node has labels pool=" in told(shared, "nonode", "NoNodes")
    shared.access.call("PATCH", f"/api/v1/nodes/{shared.farm.node}", {"metadata": {"labels": pool}})
    mended(shared, "nonode")


def test_no_pod_has_the_labels(shared: Scene) -> None:
    apply(shared, "nopod", agents={"stage": "in"})
    message = told(shared, "nopod", "NoPods")
    assert message == f"no pod with labels app=nopod, stage=in in namespace {shared.namespace}"
    for pod in ("nopod-1", "nopod-2"):
        path = f"{shared.farm.pods_path}/{pod}"
        shared.access.call("PATCH", path, {"metadata": {"labels": {"stage": "in"}}})
    mended(shared, "nopod")


def test_pods_are_not_ready(shared: Scene) -> None:
    pods = {
        pod: shared.access.call("GET", f"{shared.farm.pods_path}/{pod}") for pod in ("unready-1", "unready-2")
    }
    for pod, found in pods.items():
        status(shared, pod, found["status"]["podIP"], ready=False)
    apply(shared, "unready")
    assert told(shared, "unready", "PodsNotReady").startswith("2 pods, none is ready: pod unready-1")
    for pod, found in pods.items():
        status(shared, pod, found["status"]["podIP"])
    mended(shared, "unready")


def test_no_container_port_is_named_kvtune(shared: Scene) -> None:
    again(shared, "noport", called="http")
    apply(shared, "noport")
    message = told(shared, "noport", "NoPort")
    assert message == "2 pods, none has a container port named kvtune; they have: http"
    again(shared, "noport")
    mended(shared, "noport")


def test_the_agents_serve_another_port_than_the_pod_declares(shared: Scene) -> None:
    again(shared, "otherport", port=1)
    apply(shared, "otherport")
    message = told(shared, "otherport", "Unreachable")
    assert (
        message.startswith("2 of 2 agents do not answer: otherport-1: GET http://127.")
        and ":1/v1/report" in message
    )
    again(shared, "otherport")
    mended(shared, "otherport")


def test_something_else_answers_at_the_port(shared: Scene) -> None:
    with served(Page) as port:
        again(shared, "page", port=port)
        apply(shared, "page")
        message = told(shared, "page", "Unreachable")
    assert "HTTP 200 (text/html) is not what an agent answers" in message
    again(shared, "page")
    mended(shared, "page")


def test_another_agent_answers_at_an_address_that_is_used_again(shared: Scene) -> None:
    right = {
        pod: shared.access.call("GET", f"{shared.farm.pods_path}/{pod}")["status"]["podIP"]
        for pod in ("reused-1", "reused-2")
    }
    status(shared, "reused-1", right["reused-2"])
    apply(shared, "reused")
    message = told(shared, "reused", "Unreachable")
    assert message.startswith("1 of 2 agents do not answer: reused-1: ")
    assert "another agent, reused-2, answers there, not reused-1" in message
    status(shared, "reused-1", right["reused-1"])
    mended(shared, "reused")


def test_agents_that_fall_silent_are_told_of_once_and_taken_up_again(shared: Scene) -> None:
    apply(shared, "silent")
    mended(shared, "silent")
    shared.farm.switch(["silent-2"], "down", True)
    assert "1 of 2 agents do not answer: silent-2: " in told(shared, "silent", "Unreachable")
    shared.farm.switch(["silent-2"], "down", False)
    mended(shared, "silent")


def test_without_the_right_to_see_nodes_only_policies_that_choose_by_nodes_wait_for_it(
    shared: Scene, control_plane: Access, namespace: str
) -> None:
    policies = Policies(control_plane, namespace)
    with rights(control_plane, namespace, "operator-namespaced.yaml"):
        binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kvtune-operator-nodes-{namespace}"
        held = control_plane.call("GET", binding)
        control_plane.call("DELETE", binding)
        agents = {"matchLabels": {"app": "none"}}
        policies.apply("by-nodes", selector={"agents": agents, "nodes": {"matchLabels": {"pool": "none"}}})
        policies.apply("by-pods", selector={"agents": agents})
        operator = Operator(control_plane, namespace, shared.folder / "namespaced", "namespaced")
        try:
            forbidden = until(lambda: is_about(policies, "by-nodes", "Forbidden"), "it is told")
            assert "may not list nodes in the cluster" in forbidden["message"]
            assert "spec.selector.nodes needs it, leave it out or give that right" in forbidden["message"]
            until(lambda: is_about(policies, "by-pods", "NoPods"), "the other policy is served")
            body = {key: held[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
            name = {"metadata": {"name": held["metadata"]["name"]}}
            control_plane.call("POST", binding.rsplit("/", 1)[0], body | name)
            until(
                lambda: is_about(policies, "by-nodes", "NoNodes"),
                "the right is used",
                lambda: operator.err[-3000:],
            )
            assert operator.stop() == 0
        finally:
            operator.clean_up()


def is_about(policies: Policies, name: str, reason: str) -> Object | None:
    """The condition AgentsReady, if it is for that reason."""
    found = policies.condition(name, "AgentsReady")
    return found if found.get("reason") == reason else None
