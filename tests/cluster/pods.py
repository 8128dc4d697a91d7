"""Pods on nodes of a test's own, which the kubelet's stand-in runs for real."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered
from tools.kubelet_standin.started import StandinProcess

Object = dict[str, Any]


@contextmanager
def standin(
    access: Access, namespace: str, folder: Path, *, nodes: int = 1, labels: Mapping[str, str] | None = None
) -> Iterator[StandinProcess]:
    """Nodes NAMESPACE-1, ... that end with the test; their label `test` is the namespace."""
    names = node_names(namespace, nodes)
    folder = folder / "kubelet"
    try:
        with StandinProcess(
            access.kubeconfig, folder, names, {"test": namespace, **(labels or {})}
        ) as process:
            yield process
    finally:
        for name in names:
            access.call("DELETE", f"/api/v1/nodes/{name}")


def node_names(namespace: str, count: int) -> Sequence[str]:
    """The nodes of a test."""
    return [f"{namespace}-{number}" for number in range(1, count + 1)]


class Pods:
    """The pods of a namespace."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def run(self, name: str, container: Mapping[str, Any], **spec: Any) -> None:
        """Create a pod of one container on this test's first node."""
        whole = {"name": "main", "image": "none", **container}
        body = {"nodeName": f"{self.namespace}-1", "containers": [whole], **spec}
        self.access.call("POST", self.path, {"metadata": {"name": name}, "spec": body})

    def get(self, name: str) -> Object | None:
        """A pod; None when it is gone."""
        try:
            return self.access.call("GET", f"{self.path}/{name}")
        except Answered as error:
            if error.status == 404:
                return None
            raise

    def all(self, selector: str = "") -> list[Object]:
        """Pods by label."""
        return list(self.access.query(self.path, labelSelector=selector)["items"])

    def container(self, name: str) -> Object:
        """The status of a pod's container, with `state`, `lastState`, `ready` and `restartCount`."""
        pod = self.get(name) or {}
        found = pod.get("status", {}).get("containerStatuses", [])
        return dict(found[0]) if found else {"state": {}, "lastState": {}, "ready": False, "restartCount": 0}

    def ready(self, name: str) -> bool:
        """Whether a pod is Ready."""
        return is_ready(self.get(name) or {})

    def secret(self, name: str, **data: str) -> None:
        """Create a Secret."""
        body = {"metadata": {"name": name}, "stringData": data}
        self.access.call("POST", f"/api/v1/namespaces/{self.namespace}/secrets", body)

    def fill(self, name: str, **data: str) -> None:
        """Put data into a Secret that is there."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{name}"
        self.access.call("PATCH", path, {"stringData": data})

    def event(self, pod: str, reason: str) -> str:
        """The message of a pod's Event, once it is there."""
        fields = f"involvedObject.name={pod},reason={reason}"
        path = f"/api/v1/namespaces/{self.namespace}/events"
        items = until(
            lambda: self.access.query(path, fieldSelector=fields)["items"] or None, f"event {reason}"
        )
        return str(items[0]["message"])


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's condition says so."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def documents(text: str) -> list[Object]:
    """The documents of a manifest."""
    import yaml

    return [json.loads(json.dumps(document)) for document in yaml.safe_load_all(text) if document]
