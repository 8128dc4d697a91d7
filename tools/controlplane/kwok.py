"""Nodes and pods without a kubelet, for scale: kwok says of each pod that it runs, at an address of its own.

The addresses lie in 127.1.0.0/16, which is loopback: one process bound to 0.0.0.0 can be a thousand agents,
told apart by the local address of each connection. Only nodes with the label type=GROUP are kwok's; a test
that shares its API server with others has a group of its own.
"""

import asyncio
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError

from tools.controlplane.access import Access
from tools.controlplane.clock import until
from tools.controlplane.errors import NotStarted
from tools.controlplane.process import Process, free_ports

STAGES = Path(__file__).with_name("stages.yaml")
GROUP = "kwok"
CIDR = "127.1.0.0/16"
LEASE_SECONDS = 40
LOOK_SECONDS = 2.0


class Kwok:
    """The kwok controller of one API server; runs while entered (`with` or `async with`)."""

    def __init__(
        self, folder: Path, access: Access, *, group: str = GROUP, lease_seconds: int = LEASE_SECONDS
    ) -> None:
        """`lease_seconds` of 0: nodes keep no leases (1,000 of them write 100 times a second)."""
        folder.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        self._health = f"http://127.0.0.1:{port}/healthz"
        flags = {
            "kubeconfig": access.kubeconfig,
            "config": STAGES,
            "manage-nodes-with-label-selector": f"type={group}",
            "cidr": CIDR,
            "node-lease-duration-seconds": lease_seconds,
            "server-address": f"127.0.0.1:{port}",
        }
        command = [access.binaries / "kwok", *(f"--{flag}={value}" for flag, value in flags.items())]
        self.process = Process("kwok", command, folder=folder)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.process.wait_ready(self._ready)
        except BaseException:
            self.process.stop()
            raise
        return self

    async def __aenter__(self) -> Self:
        self.process.start()
        try:
            await asyncio.to_thread(self.process.wait_ready, self._ready)
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.process.stop)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=LOOK_SECONDS) as answer:
                return int(answer.status) == 200
        except (URLError, OSError):
            return False


def node(name: str, *, group: str = GROUP, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a node that kwok keeps Ready."""
    own = {"type": group, "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}},
    }


def apply_nodes(
    access: Access, prefix: str, count: int, *, group: str = GROUP, labels: Mapping[str, str] | None = None
) -> list[str]:
    """Create (or change) nodes prefix-0000, …; returns their names. 1,000 take some 5 s."""
    names = [f"{prefix}-{number:04}" for number in range(count)]
    items = [node(name, group=group, labels=labels) for name in names]
    done = access.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    if done.returncode != 0:
        raise NotStarted(f"kubectl apply of {count} nodes: {done.stderr.strip()[-2000:]}")
    return names


def delete_nodes(access: Access, *, group: str = GROUP) -> None:
    """Delete the nodes of a group; their pods follow."""
    access.kubectl("delete", "nodes", "-l", f"type={group}", "--wait=false")


def wait_pods(
    access: Access, namespace: str, selector: str, count: int, within_seconds: float = 120.0
) -> None:
    """Wait until this many pods run with an address; raises NotStarted with how many do."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    seen = 0

    def enough() -> bool:
        nonlocal seen
        pods = access.query(path, labelSelector=selector, fieldSelector="status.phase=Running")["items"]
        seen = sum("podIP" in pod["status"] for pod in pods)
        return seen >= count

    if until(enough, within_seconds, every_seconds=0.5) is None:
        raise NotStarted(
            f"{seen} of {count} pods of {namespace} ({selector}) run after {within_seconds:.0f} s"
        )
