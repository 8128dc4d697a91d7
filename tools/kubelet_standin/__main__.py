"""Play the kubelet of some nodes from a shell: `python -m tools.kubelet_standin --kubeconfig F --nodes 4`.

Like the kubelet it registers nodes and keeps them Ready, runs the containers of pods bound to them as
processes, with variables, volumes (emptyDir, Secret, ConfigMap, projected tokens), probes, restarts and grace
periods, and writes status and Events. A pod's address is 127.0.x.y, so it must listen on status.podIP.

Images are not fetched. A container's command runs with this machine's files and this checkout's Python; the
images kvtune-agent and kvtune-operator run the ENTRYPOINT of their Containerfile here. Every container has
mount and PID namespaces of its own (needs root, or user namespaces), so that mountPaths are where a pod
expects them, the token for the API server included. Where a volume hides this checkout or its Python, both
are mounted into it. There is no separate network, no user (runAsUser is ignored), no limit of resources, no
init container that runs on beside the others, and no `kubectl logs` or `exec`: logs are in
FOLDER/logs/NAMESPACE/POD/CONTAINER.RUN.log.

Killed in whatever way, it takes every process of its pods along. Started again, it starts its pods anew.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.kubelet_standin.api import ApiError
from tools.kubelet_standin.nodes import Node
from tools.kubelet_standin.standin import KubeletStandin


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; 1 where the API server refuses, 2 for a wrong command line."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    labels = dict(label.partition("=")[::2] for label in chosen.label)
    names = chosen.node or [f"{chosen.prefix}-{number}" for number in range(1, chosen.nodes + 1)]
    nodes = [Node(name=name, labels=labels) for name in names]
    try:
        asyncio.run(_run(chosen.kubeconfig, chosen.folder, nodes))
    except (ApiError, OSError, ValueError) as error:
        sys.stderr.write(f"kubelet stand-in: {error}\n")
        return 1
    return 0


async def _run(kubeconfig: Path, folder: Path, nodes: Sequence[Node]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with KubeletStandin(kubeconfig, folder, nodes):
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(f"nodes ready: {' '.join(node.name for node in nodes)}; logs in {folder}/logs\n")
            sys.stdout.flush()
        await stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kubelet_standin", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kubeconfig", required=True, type=Path, help="of an administrator")
    parser.add_argument(
        "--folder", type=Path, default=Path("kubelet"), help="for logs and volumes (%(default)s)"
    )
    parser.add_argument("--nodes", type=int, default=1, help="how many nodes (%(default)s)")
    parser.add_argument("--prefix", default="node", help="their names: PREFIX-1, PREFIX-2, ... (%(default)s)")
    parser.add_argument("--node", action="append", help="instead: a node of this name; may be repeated")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="of every node")
    return parser


if __name__ == "__main__":
    sys.exit(main())
