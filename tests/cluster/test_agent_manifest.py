"""The agents and the traffic of examples/ in a real cluster, their commands run by the kubelet's stand-in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvtune_api.names import AGENT_PORT, AGENT_TOKEN_SECRET
from tests.cluster.fixtures import Kubectl
from tests.cluster.pods import Object, Pods, documents, is_ready, standin
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.kubelet_standin.started import StandinProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
AGENTS = "app.kubernetes.io/name=kvtune-agent"
NODES = 3


@pytest.fixture
def pods(control_plane: Access, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def kubelet(control_plane: Access, namespace: str, tmp_path: Path) -> Iterator[StandinProcess]:
    labels = {"kvtune.dev/pool": "chat"}
    with standin(control_plane, namespace, tmp_path, nodes=NODES, labels=labels) as started:
        yield started


def apply(kubectl: Kubectl, namespace: str, file: str) -> None:
    """Apply a manifest, its pods on this test's nodes only; other tests have nodes of the same label."""
    found = documents((EXAMPLES / file).read_text(encoding="utf-8"))
    for document in found:
        if document["kind"] in ("DaemonSet", "Deployment"):
            spec = document["spec"]["template"]["spec"]
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "test": namespace}
    import yaml

    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump_all(found))
    assert done.returncode == 0, done.stderr


def ready_agents(pods: Pods, count: int = NODES) -> list[Object]:
    def found() -> list[Object] | None:
        ready = [pod for pod in pods.all(AGENTS) if is_ready(pod)]
        return ready if len(ready) == count else None

    return until(found, f"{count} agents are ready", lambda: pods.all(AGENTS))


def url_of(pod: Object) -> str:
    [port] = pod["spec"]["containers"][0]["ports"]
    assert port["name"] == AGENT_PORT
    return f"http://{pod['status']['podIP']}:{port['containerPort']}"


def ask(pod: Object, method: str, path: str, **more: Any) -> httpx.Response:
    return httpx.request(method, url_of(pod) + path, timeout=30, trust_env=False, **more)


def test_agents_run_on_every_node_and_are_replaced(
    pods: Pods, kubelet: StandinProcess, namespace: str, kubectl: Kubectl, control_plane: Access
) -> None:
    apply(kubectl, namespace, "agent.yaml")
    agents = ready_agents(pods)
    assert len({pod["spec"]["nodeName"] for pod in agents}) == NODES
    for pod in agents:
        report = ask(pod, "GET", "/v1/report").json()
        assert report["agent"] == pod["metadata"]["name"]
        assert report["running"]["config"]["cacheTTL"] == "30s"

    bearer = {"Authorization": "Bearer late"}
    assert ask(agents[0], "PUT", "/v1/config", json={}, headers=bearer).status_code == 503
    pods.fill(AGENT_TOKEN_SECRET, token="late")
    until(
        lambda: ask(agents[0], "PUT", "/v1/config", json={}, headers=bearer).status_code == 422,
        "the token that came later counts",
    )

    name = agents[1]["metadata"]["name"]
    assert kubectl("delete", "pod", name, "-n", namespace).returncode == 0
    after = {pod["metadata"]["name"] for pod in ready_agents(pods)}
    assert name not in after

    evicted = agents[2]["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted["name"]}}
    control_plane.call("POST", f"{pods.path}/{evicted['name']}/eviction", eviction)
    until(lambda: pods.get(evicted["name"]) is None, "the evicted agent is gone")
    ready_agents(pods)


def test_traffic_waits_for_the_token_and_then_reaches_every_agent(
    pods: Pods, kubelet: StandinProcess, namespace: str, kubectl: Kubectl
) -> None:
    apply(kubectl, namespace, "agent.yaml")
    apply(kubectl, namespace, "traffic.yaml")
    agents = ready_agents(pods)

    pods.fill(AGENT_TOKEN_SECRET, token="secret")

    for pod in agents:
        until(
            lambda pod=pod: (ask(pod, "GET", "/v1/report").json().get("counters") or {}).get("requests"),
            "requests arrive",
            lambda: kubelet.said(),
        )
