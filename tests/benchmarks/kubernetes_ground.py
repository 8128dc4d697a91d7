"""The cluster of the bench: an API server, kwok's nodes and pods, and one process as all agents.

No controllers, no scheduler, no kubelets' heartbeats: what moves the processors is the operator, the API
server that answers it, and the agents.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN
from kvtune_operator.adapters.kube import Kube, connect
from tests.cluster.operators import ACCOUNT, rights
from tools.controlplane.access import Access
from tools.controlplane.crds import apply_crds
from tools.controlplane.kwok import Kwok, node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.process import free_ports

OWN_NAMESPACE = "kvtune-system"
TOKEN = "bench-token"
AT_ONCE = 32
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/kvtune.dev/v1alpha1/namespaces/{}/kvcachepolicies"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large a fleet is."""

    policies: int
    agents: int
    """Of each policy."""

    namespaces: int
    nodes: int

    @property
    def name(self) -> str:
        """As tables show it."""
        return f"{self.policies} x {self.agents:,}"


@dataclass(slots=True)
class Fleet:
    """A running cluster with its agents."""

    scale: Scale
    access: Access
    kube: Kube
    folder: Path
    port: int
    agents: "subprocess.Popen[str] | None" = None
    policies: list[tuple[str, str]] = field(default_factory=list)
    """Namespace and name."""

    async def make(self) -> None:
        """Create namespaces, nodes, pods, policies; start the agents."""
        namespaces = [f"fleet-{number:02}" for number in range(self.scale.namespaces)]
        await self._all([self._namespace(name) for name in namespaces])
        nodes = [f"node-{number:04}" for number in range(self.scale.nodes)]
        await self._all([self.kube.create("/api/v1/nodes", node(name)) for name in nodes])
        pods = []
        for number in range(self.scale.policies):
            namespace, name = namespaces[number % len(namespaces)], f"policy-{number:02}"
            self.policies.append((namespace, name))
            for agent in range(self.scale.agents):
                place = nodes[(number * self.scale.agents + agent) % len(nodes)]
                pods.append(self._pod(namespace, name, f"{name}-{agent:04}", place))
        await self._all(pods)
        names = await self._addresses(len(pods))
        self.agents = await asyncio.to_thread(self._serving, names)
        await self._all([self._policy(*key) for key in self.policies])

    def _serving(self, names: Mapping[str, str]) -> "subprocess.Popen[str]":
        """Start the agents and wait until they serve."""
        path = self.folder / "agents.json"
        path.write_text(json.dumps(names))
        module = "tests.benchmarks.kubernetes_agents"
        command = [sys.executable, "-m", module, str(self.port), str(path), TOKEN]
        agents = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert agents.stdout is not None
        agents.stdout.readline()
        return agents

    async def edit(self, spec: Mapping[str, Any]) -> None:
        """Change the spec of every policy (merge patch)."""
        await self._all(
            [
                self.kube.merge(f"{POLICIES.format(namespace)}/{name}", {"spec": dict(spec)})
                for namespace, name in self.policies
            ]
        )

    async def statuses(self) -> list[Object]:
        """The status of every policy."""
        items, _ = await self.kube.listed("/apis/kvtune.dev/v1alpha1/kvcachepolicies")
        return [item.get("status", {}) for item in items]

    async def _all(self, calls: list[Any]) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(call: Any) -> None:
            async with gate:
                await call

        await asyncio.gather(*map(one, calls))

    async def _namespace(self, name: str) -> None:
        await self.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
        within = f"/api/v1/namespaces/{name}"
        await self.kube.create(f"{within}/serviceaccounts", {"metadata": {"name": "default"}})
        metadata = {"name": AGENT_TOKEN_SECRET, "labels": {LABEL_AGENT_TOKEN: "true"}}
        await self.kube.create(f"{within}/secrets", {"metadata": metadata, "stringData": {"token": TOKEN}})
        role = {"metadata": {"name": "secrets"}, "rules": [_SECRETS]}
        await self.kube.create(f"{RBAC}/namespaces/{name}/roles", role)
        binding = {
            "metadata": {"name": "secrets"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "secrets"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": OWN_NAMESPACE}],
        }
        await self.kube.create(f"{RBAC}/namespaces/{name}/rolebindings", binding)

    async def _pod(self, namespace: str, policy: str, name: str, place: str) -> None:
        container = {
            "name": "agent",
            "image": "none",
            "ports": [{"name": "kvtune", "containerPort": self.port}],
        }
        body = {
            "metadata": {"name": name, "labels": {"app": policy}},
            "spec": {"nodeName": place, "containers": [container], "automountServiceAccountToken": False},
        }
        await self.kube.create(f"/api/v1/namespaces/{namespace}/pods", body)

    async def _addresses(self, count: int) -> dict[str, str]:
        """Wait until every pod runs; name by address."""
        for _ in range(600):
            pods, _version = await self.kube.listed("/api/v1/pods")
            found = {pod["status"].get("podIP"): pod["metadata"]["name"] for pod in pods}
            found.pop(None, None)
            if len(found) == count:
                return found
            await asyncio.sleep(0.5)
        raise RuntimeError(f"{len(found)} of {count} pods run after 300 s")

    async def _policy(self, namespace: str, name: str) -> None:
        spec = {
            "selector": {
                "agents": {"matchLabels": {"app": name}},
                "nodes": {"matchLabels": {"type": "kwok"}},
            },
            "targets": {"ttft": {"quantile": 0.9, "limit": "250ms"}, "hitRate": {"min": 0.6}},
            "objective": {"prices": {"memory": 0.05, "evictionPass": 1}},
            "knobs": knobs(30),
            "metrics": {"span": "60s"},
            "experiment": _EXPERIMENT,
            "paused": True,
        }
        body = {
            "apiVersion": "kvtune.dev/v1alpha1",
            "kind": "KVCachePolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.kube.create(POLICIES.format(namespace), body)


def knobs(ttl_seconds: int) -> Object:
    """Bounds within which the incumbent's TTL starts here; what lies below is out of bounds."""
    return {
        "cacheTTL": {"min": f"{ttl_seconds}s", "max": "600s", "start": f"{ttl_seconds}s", "largestStep": 4},
        "evictionRatio": {"min": 0.05, "max": 0.3, "start": 0.3, "largestStep": 4},
        "tiers": {"hostMemory": {"min": "14Gi", "max": "912Gi", "start": "57Gi", "largestStep": 4}},
    }


_SECRETS = {
    "apiGroups": [""],
    "resources": ["secrets"],
    "resourceNames": [AGENT_TOKEN_SECRET],
    "verbs": ["get"],
}
_EXPERIMENT = {
    "washout": {"min": "10s", "max": "20s"},
    "window": {"min": "10s", "max": "20s"},
    "minRequests": 50,
    "maxPairs": 200,
    "cooldown": "0s",
    "leaseDuration": "20s",
}


@asynccontextmanager
async def fleet(scale: Scale, folder: Path) -> AsyncIterator[Fleet]:
    """Start everything but the operator; ends it all."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(
            ControlPlane(folder / "plane", controllers=False, scheduler=False)
        )
        apply_crds(plane.access)
        await stack.enter_async_context(Kwok(folder / "kwok", plane.access, lease_seconds=0))
        kube = await stack.enter_async_context(connect(plane.kubeconfig, timeout_seconds=60.0))
        await kube.create("/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
        stack.enter_context(rights(plane.access, OWN_NAMESPACE))
        settings = {
            "metadata": {"name": "kvtune-operator"},
            "data": {"config.yaml": "maxExperiments: 1000\n"},
        }
        await kube.create(f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps", settings)
        [port] = free_ports(1)
        made = Fleet(scale, plane.access, kube, folder, port)
        try:
            await made.make()
            yield made
        finally:
            if made.agents is not None:
                made.agents.kill()
                made.agents.wait(timeout=10)
