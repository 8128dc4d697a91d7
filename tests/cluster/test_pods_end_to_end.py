"""Everything as pods: operator, agents and traffic as a user applies them, a drained node, a rollout.

The kubelet's stand-in runs the containers' commands for real; nothing here is simulated but the engine.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from kvtune_api.experiment import KVCacheExperiment
from kvtune_operator.adapters.kubernetes_forms import experiment_in
from tests.cluster.fixtures import Kubectl
from tests.cluster.operators import Policies, placed
from tests.cluster.pods import Object, Pods, is_ready, standin
from tests.cluster.rights import documents
from tests.e2e.processes import until
from tools.controlplane.access import Access

AGENTS = "app.kubernetes.io/name=kvtune-agent"
NODES = 6
SPEC: Mapping[str, Any] = {
    "selector": {"agents": {"matchLabels": {"app.kubernetes.io/name": "kvtune-agent"}}},
    "targets": {"hitRate": {"min": 0.1}},
    "knobs": {"cacheTTL": {"min": "3s", "max": "12s", "start": "3s", "largestStep": 2}},
    "strategy": "Ladder",
    "metrics": {"span": "10s"},
    "experiment": {
        "washout": {"min": "5s", "max": "5s"},
        "window": {"min": "5s", "max": "5s"},
        "minRequests": 5,
        "minPairs": 900,
        "maxPairs": 1000,
        "cooldown": "1h",
        "leaseDuration": "20s",
        "noDataTimeout": "2m",
        "minEffect": 0.5,
        "detectableEffect": 0.9,
    },
}
"""No experiment of this is decided while the test lasts, and none lacks power: not the gain that is predicted
counts, which may be small beside the noise of windows of 5 s, but one of .9."""


class Cluster:
    """What the test sees of its cluster."""

    def __init__(self, access: Access, namespace: str, kubectl: Kubectl) -> None:
        self.access = access
        self.namespace = namespace
        self._kubectl = kubectl
        self.pods = Pods(access, namespace)
        self.policies = Policies(access, namespace)

    def apply(self, example: str) -> None:
        """Apply an example, in this namespace and on this test's nodes."""
        found = [placed(document, self.namespace) for document in documents(example)]
        for document in found:
            if document["kind"] in ("DaemonSet", "Deployment"):
                spec = document["spec"]["template"]["spec"]
                spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "test": self.namespace}
                _hurry(document, spec["containers"][0], self.namespace)
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(found))

    def kubectl(self, *args: object, stdin: str | None = None) -> str:
        """Run kubectl in the namespace; it must succeed."""
        done = self._kubectl(*args, "-n", self.namespace, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def agents(self) -> list[Object]:
        """The agents' pods that are ready."""
        return [pod for pod in self.pods.all(AGENTS) if is_ready(pod)]

    def status(self) -> Object:
        """The policy's status."""
        return dict((self.policies.get("pods") or {}).get("status", {}))

    def experiment(self) -> KVCacheExperiment:
        """The first experiment."""
        text = self.kubectl("get", "kvx", "pods-00001", "-o", "json")
        return experiment_in(json.loads(text))

    def until(self, ask: Any, what: str) -> Any:
        """Wait for an answer that is not empty."""
        return until(
            lambda: ask() or None, what, lambda: (self.status(), self.kubectl("get", "pods", "-o", "wide"))
        )


def _hurry(document: Object, container: Object, namespace: str) -> None:
    """Small caches, hasty people, an operator that looks every second at this namespace alone."""
    match document["metadata"]["name"]:
        case "kvtune-agent":
            started = ["--cache-ttl=3s", "--eviction-ratio=0.3", "--host-memory=5836Mi"]
            names = tuple(option.partition("=")[0] for option in started)
            kept = [arg for arg in container["args"] if not arg.startswith(names)]
            container["args"] = kept + started
        case "kvtune-traffic":
            container["args"] += ["--haste=10"]
        case "kvtune-operator":
            container["args"] += ["--tick=1", "--lease=6", f"--watch-namespaces={namespace}"]


@pytest.fixture
def cluster(control_plane: Access, namespace: str, kubectl: Kubectl, tmp_path: Path) -> Any:
    """Nodes that run pods; cluster-wide rights go with the test."""
    labels = {"kvtune.dev/pool": "chat"}
    made = Cluster(control_plane, namespace, kubectl)
    with standin(control_plane, namespace, tmp_path, nodes=NODES, labels=labels):
        try:
            yield made
            made.kubectl("delete", "kvp", "--all", "--timeout=60s")
        finally:
            for kind in ("clusterrolebinding", "clusterrole"):
                kubectl("delete", kind, f"kvtune-operator-{namespace}", "--ignore-not-found")


@pytest.mark.timeout(600)
def test_operator_agents_and_traffic_as_pods_live_through_a_drain_and_a_rollout(cluster: Cluster) -> None:
    for example in ("operator.yaml", "agent.yaml", "traffic.yaml"):
        cluster.apply(example)
    cluster.policies.apply("pods", **SPEC)
    cluster.policies.until_accepted("pods")
    cluster.until(lambda: len(cluster.agents()) == NODES, "agents are ready")
    cluster.until(lambda: [sli for sli in cluster.status().get("slis", ()) if "value" in sli], "SLIs appear")
    cluster.until(lambda: cluster.status().get("phase") == "Measuring", "a candidate is measured")

    a_drained_node_costs_its_pair_alone(cluster)
    a_rollout_ends_the_experiment_with_the_incumbent(cluster)


def a_drained_node_costs_its_pair_alone(cluster: Cluster) -> None:
    """The pair is dropped as AgentLeft; the others go on in the same experiment."""
    pairs = cluster.experiment().spec.pairs
    busy = {
        pod["spec"]["nodeName"] for pod in cluster.pods.all() if "kvtune-agent" not in pod["metadata"]["name"]
    }
    node_of = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in cluster.agents()}
    number, node = next(
        (number, node_of[name])
        for number, pair in enumerate(pairs)
        for name in (pair.first, pair.second)
        if node_of[name] not in busy
    )
    cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")

    def rows() -> set[tuple[int, bool]]:
        """Pair and whether it was dropped as AgentLeft, of the rows of tests so far."""
        found = cluster.experiment().status.rows
        return {(row.pair, row.dropped is not None and "AgentLeft" in str(row.dropped)) for row in found}

    cluster.until(lambda: (number, True) in rows(), "the pair is dropped")
    assert not {pair for pair, dropped in rows() if dropped} - {number}
    counted = len(cluster.experiment().status.rows)
    cluster.until(lambda: len(cluster.experiment().status.rows) > counted + 1, "the others go on")
    assert cluster.experiment().status.outcome is None


def a_rollout_ends_the_experiment_with_the_incumbent(cluster: Cluster) -> None:
    """New pods are given the incumbent."""
    before = {pod["metadata"]["name"] for pod in cluster.agents()}
    cluster.kubectl("rollout", "restart", "daemonset/kvtune-agent")

    def replaced() -> bool:
        now = {pod["metadata"]["name"] for pod in cluster.agents()}
        return len(now) == NODES and before.isdisjoint(now)

    cluster.until(replaced, "every agent is new and ready")
    cluster.until(lambda: cluster.experiment().status.ended_at, "the experiment ends")
    status = cluster.experiment().status
    assert status.outcome is not None
    assert status.outcome != "Promoted"
    incumbent = cluster.status()["incumbent"]
    assert incumbent["cacheTTL"] == "3s"
    cluster.until(lambda: {ttl(pod) for pod in cluster.agents()} == {"3s"}, "new pods run the incumbent")
    cluster.until(lambda: "finalizers" not in (cluster.policies.get("pods") or {})["metadata"], "it is free")


def ttl(pod: Object) -> str:
    """What an agent runs."""
    [port] = pod["spec"]["containers"][0]["ports"]
    url = f"http://{pod['status']['podIP']}:{port['containerPort']}/v1/config"
    return str(httpx.get(url, trust_env=False, timeout=30).json()["config"]["cacheTTL"])
