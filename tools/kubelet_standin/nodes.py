"""Register a node and keep it Ready: its status, and the Lease that says that its kubelet lives."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.kubelet_standin.api import Api, ApiError, Object
from tools.kubelet_standin.clock import micro_timestamp, timestamp

log = logging.getLogger(__name__)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 40
BEAT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that a stand-in plays."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "64", "memory": "2Ti", "pods": "110", "ephemeral-storage": "100Gi"}
    )

    @property
    def path(self) -> str:
        """Where its object is."""
        return f"/api/v1/nodes/{self.name}"


async def register(api: Api, node: Node) -> None:
    """Create or renew the node's object, without taints, and its first heartbeat."""
    labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", **node.labels}
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
    if await api.merge(node.path, {"metadata": {"labels": labels}}) is None:
        await api.create("/api/v1/nodes", body)
    await api.merge(f"{node.path}/status", {"status": _status(node)})
    await _untaint(api, node)
    await beat(api, node)


async def _untaint(api: Api, node: Node) -> None:
    """Take away the taint that the API server gives every new node until something calls it ready."""
    found = await api.get(node.path) or {}
    taints = found.get("spec", {}).get("taints", [])
    kept = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
    if kept != taints:
        await api.merge(node.path, {"spec": {"taints": kept or None}})


async def beat(api: Api, node: Node) -> None:
    """Renew the node's Lease."""
    spec = {
        "holderIdentity": node.name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": micro_timestamp(),
    }
    if await api.merge(f"{LEASES}/{node.name}", {"spec": spec}) is None:
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await api.create(LEASES, {**kind, "metadata": {"name": node.name}, "spec": spec})


async def keep_beating(api: Api, node: Node) -> None:
    """Renew the Lease until cancelled; register again where the node was deleted."""
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        try:
            if await api.get(node.path) is None:
                await register(api, node)
            await beat(api, node)
        except ApiError as error:
            log.warning("no heartbeat", extra={"node": node.name, "error": str(error)})


def _status(node: Node) -> Object:
    now, allocatable = timestamp(), dict(node.allocatable)
    kinds = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": "StandIn",
            "message": "a stand-in for the kubelet",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status in kinds.items()
    ]
    return {
        "capacity": allocatable,
        "allocatable": allocatable,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "standin://1",
            "kernelVersion": "",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.3",
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "this machine",
            "systemUUID": "",
        },
    }
