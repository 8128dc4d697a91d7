"""Nodes and pods of one test on the real API server, written by hand as kubelets would: nothing runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN
from kvtune_api.policy import KVCachePolicy
from tests.fakes.samples import policy
from tools.controlplane.access import Access

APP = {"app": "chat"}
PLACE = ("127.0.0.2", 9402)


class Ground:
    """Nodes and pods of one test, written as kubelets would."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.nodes: list[str] = []
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"

    def node(self, name: str, *, labels: dict[str, str] | None = None) -> str:
        """A ready node, in this test's pool unless it is given other labels; its full name."""
        name = f"{self.namespace}-{name}"
        self.nodes.append(name)
        body = {"metadata": {"name": name, "labels": {"pool": self.namespace} if labels is None else labels}}
        self.access.call("POST", "/api/v1/nodes", body)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test"}]}}
        self.access.call("PATCH", f"/api/v1/nodes/{name}/status", ready)
        return name

    def pod(
        self,
        name: str,
        node: str,
        *,
        port: str = "kvtune",
        ready: bool = True,
        at: tuple[str, int] = PLACE,
        labels: dict[str, str] | None = None,
    ) -> None:
        """A pod on a node, running, at an address and port."""
        ip, number = at
        container = {"name": "agent", "image": "none", "ports": [{"name": port, "containerPort": number}]}
        metadata = {"name": name, "labels": labels or dict(APP)}
        spec = {"nodeName": node, "containers": [container]}
        self.access.call("POST", self.pods_path, {"metadata": metadata, "spec": spec})
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": ip, "conditions": [condition]}
        self.access.call("PATCH", f"{self.pods_path}/{name}/status", {"status": status})

    def token(self, token: str) -> None:
        """The write token of the namespace's agents."""
        metadata = {"name": AGENT_TOKEN_SECRET, "labels": {LABEL_AGENT_TOKEN: "true"}}
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        self.access.call("POST", path, {"metadata": metadata, "stringData": {"token": token}})

    def remove(self, name: str) -> None:
        """Delete a pod at once."""
        self.access.call("DELETE", f"{self.pods_path}/{name}?gracePeriodSeconds=0")

    def policy(self) -> KVCachePolicy:
        """The policy for this test's nodes."""
        nodes = {"matchLabels": {"pool": self.namespace}}
        return policy(selector={"nodes": nodes, "agents": {"matchLabels": dict(APP)}})


@contextmanager
def standing(access: Access, namespace: str) -> Iterator[Ground]:
    """The ground of a test; its nodes end with it (pods end with the namespace)."""
    ground = Ground(access, namespace)
    try:
        yield ground
    finally:
        for node in ground.nodes:
            access.call("DELETE", f"/api/v1/nodes/{node}")
