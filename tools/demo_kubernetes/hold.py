"""Hold the demo's cluster: control plane, nodes and Prometheus, until SIGTERM. Runs in the background.

Started by story.py in a session of its own, so that it outlives the terminal; `make down` ends it.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from pathlib import Path

from tools.controlplane.plane import ControlPlane
from tools.controlplane.prometheus import Prometheus, discovery_config
from tools.demo_kubernetes.place import Place, State, sole_holder
from tools.kubelet_standin.nodes import Node
from tools.kubelet_standin.standin import KubeletStandin

NODES = 8
SYSTEM_NODES = 1
LABELS = {"kvtune.dev/pool": "chat"}
NAMESPACE = "default"


async def hold(folder: Path, *, agents: int = NODES) -> None:
    """Start everything in a fresh folder, say where it is in place.json, and stay until SIGTERM.

    A SIGTERM during the start ends what has been started. Raises Taken, and touches nothing, when another
    process holds the folder.
    """
    with sole_holder(folder):
        Place(pid=os.getpid(), state=State.STARTING).write(folder)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        holding = asyncio.ensure_future(_held(folder, agents))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, holding.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await holding


async def _held(folder: Path, agents: int) -> None:
    for old in ("plane", "kubelet", "prometheus"):
        shutil.rmtree(folder / old, ignore_errors=True)
    async with ControlPlane(folder / "plane", controllers=True, scheduler=True) as plane:
        await asyncio.to_thread(_account_of_prometheus, plane)
        token_file = folder / "plane" / "prometheus.token"
        token_file.touch(mode=0o600)
        token_file.write_text(await asyncio.to_thread(plane.token_for, "prometheus", NAMESPACE))
        config = discovery_config(plane.access, token_file, [NAMESPACE])
        async with (
            KubeletStandin(plane.kubeconfig, folder / "kubelet", _nodes(agents)),
            Prometheus(folder / "prometheus", config) as prometheus,
        ):
            Place(
                pid=os.getpid(),
                state=State.UP,
                kubeconfig=str(plane.kubeconfig),
                binaries=str(plane.access.binaries),
                url=plane.url,
                prometheus=prometheus.url,
                logs=str(folder / "kubelet" / "logs"),
            ).write(folder)
            await asyncio.get_running_loop().create_future()  # until it is cancelled


def _nodes(agents: int) -> list[Node]:
    """Nodes of the pool, and one for everything else."""
    pool = [Node(name=f"gpu-{number}", labels=LABELS) for number in range(1, agents + 1)]
    return [*pool, *(Node(name=f"system-{n}", labels={}) for n in range(1, SYSTEM_NODES + 1))]


def _account_of_prometheus(plane: ControlPlane) -> None:
    """What a Prometheus needs to find pods: its own ServiceAccount, list and watch."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    call, meta = plane.access.call, {"metadata": {"name": "prometheus"}}
    call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", meta)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    call("POST", role, {**meta, "rules": rules})
    who = {"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE}
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "prometheus"}
    call("POST", binding, {**meta, "roleRef": to, "subjects": [who]})
