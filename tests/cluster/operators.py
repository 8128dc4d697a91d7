"""The operator's real process against the real API server, with the rights of examples/operator.yaml."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.rights import documents
from tests.e2e.processes import Running, until
from tools.controlplane.access import Access, write_kubeconfig
from tools.controlplane.errors import Answered

OPERATOR = "kvtune_operator"
ACCOUNT = "kvtune-operator"
LEASE_SECONDS = 6.0
Object = dict[str, Any]

_PATHS = {
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}


@contextmanager
def rights(access: Access, namespace: str, example: str = "operator.yaml") -> Iterator[None]:
    """Give the operator of a test's namespace the rights of an example; what is cluster-wide goes after."""
    made = []
    for document in documents(example):
        if (kind := document["kind"]) in _PATHS:
            body = placed(document, namespace)
            root = _PATHS[kind].format(namespace)
            access.call("POST", root, body)
            made.append(f"{root}/{body['metadata']['name']}")
    try:
        yield
    finally:
        for path in made:
            if "clusterrole" in path:
                access.call("DELETE", path)


def placed(document: Object, namespace: str) -> Object:
    """The document in a namespace of a test; cluster-wide names become the test's own."""
    body = copy.deepcopy(document)
    if "namespace" in body["metadata"]:
        body["metadata"]["namespace"] = namespace
    if body["kind"] == "Namespace":
        body["metadata"]["name"] = namespace
    if body["kind"].startswith("Cluster"):
        body["metadata"]["name"] += f"-{namespace}"
    if body.get("roleRef", {}).get("kind") == "ClusterRole":
        body["roleRef"]["name"] += f"-{namespace}"
    for subject in body.get("subjects", ()):
        subject["namespace"] = namespace
    return body


class Operator(Running):
    """One replica, serving the namespace it lies in."""

    def __init__(
        self,
        access: Access,
        namespace: str,
        folder: Path,
        name: str,
        *args: object,
        url: str | None = None,
    ) -> None:
        """`url` takes the place of the API server's own (a proxy)."""
        folder.mkdir(parents=True, exist_ok=True)
        config = access.kubeconfig_for(ACCOUNT, namespace, folder)
        if url is not None:
            token = access.token_for(ACCOUNT, namespace)
            write_kubeconfig(config, url=url, ca_file=access.ca_file, token=token, namespace=namespace)
        told = (
            f"--kubeconfig={config}",
            f"--namespace={namespace}",
            f"--watch-namespaces={namespace}",
            f"--lease={LEASE_SECONDS}",
            "--tick=1",
            "--health-host=127.0.0.1",
            "--health-port=0",
        )
        super().__init__(folder, name, OPERATOR, *told, *args)

    @property
    def address(self) -> str:
        """Of its health endpoint."""
        return str(json.loads(self.until_said("health and metrics"))["address"])

    def ready(self) -> bool:
        """What /readyz answers."""
        return httpx.get(f"{self.address}/readyz", trust_env=False).status_code == 200

    def details(self) -> Object:
        """What /healthz tells."""
        return dict(httpx.get(f"{self.address}/healthz", trust_env=False).json())

    def events(self) -> list[str]:
        """The events of its log."""
        return [json.loads(line)["event"] for line in self.err.splitlines() if line.startswith("{")]

    def until_stage(self, stage: str) -> None:
        """Wait until it has come so far."""
        until(lambda: self.details()["stage"] == stage, f"{self.name} is {stage}", lambda: self.err[-2000:])


class Policies:
    """The policies of a namespace."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.path = f"/apis/kvtune.dev/v1alpha1/namespaces/{namespace}/kvcachepolicies"

    def apply(self, name: str, **spec: Any) -> Object:
        """Create a minimal policy."""
        whole = {
            "selector": {"agents": {"matchLabels": {"app": name}}},
            "targets": {"hitRate": {"min": 0.5}},
            "knobs": {"cacheTTL": {"min": "30s", "max": "600s"}},
            **spec,
        }
        body = {
            "apiVersion": "kvtune.dev/v1alpha1",
            "kind": "KVCachePolicy",
            "metadata": {"name": name},
            "spec": whole,
        }
        return self.access.call("POST", self.path, body)

    def get(self, name: str) -> Object | None:
        """A policy; None when it is gone."""
        try:
            return self.access.call("GET", f"{self.path}/{name}")
        except Answered as error:
            if error.status == 404:
                return None
            raise

    def condition(self, name: str, kind: str) -> Object:
        """One condition; empty while there is none."""
        found = self.get(name) or {}
        conditions = found.get("status", {}).get("conditions", ())
        return next((item for item in conditions if item["type"] == kind), {})

    def until_accepted(self, name: str, status: str = "True") -> Object:
        """Wait for the condition Accepted."""

        def found() -> Object | None:
            condition = self.condition(name, "Accepted")
            return condition if condition.get("status") == status else None

        return until(found, f"{name} has Accepted={status}", lambda: self.get(name))
