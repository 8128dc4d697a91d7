"""Play the kubelet of some nodes: run the pods that are bound to them until told to stop."""

import asyncio
import logging
import shlex
import sys
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType

from tools.kubelet_standin.api import Api, ApiError, Object, access_of
from tools.kubelet_standin.nodes import Node, keep_beating, register
from tools.kubelet_standin.pod import Ground, Pod, log_folder

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
ENDED = frozenset({"Succeeded", "Failed"})


class KubeletStandin:
    """An asynchronous context in which nodes are Ready and run their pods.

    `folder` gets logs, volumes and scratch. Leaving the context kills what runs; the nodes' objects stay.
    """

    def __init__(self, kubeconfig: Path, folder: Path, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self._folder = folder.absolute()
        self._api = Api(access_of(kubeconfig))
        self._pods: dict[str, Pod] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "KubeletStandin":
        await self._api.__aenter__()
        try:
            self._ground = Ground(api=self._api, folder=self._folder, commands=_commands(self._folder))
            for node in self.nodes:
                await register(self._api, node)
        except BaseException:
            await self._api.__aexit__()
            raise
        for node in self.nodes:
            self._tasks += [
                asyncio.create_task(keep_beating(self._api, node)),
                asyncio.create_task(self._follow(node)),
            ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in (*self._tasks, *self._stopping):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._stopping, return_exceptions=True)
        await asyncio.gather(*(pod.abandon() for pod in self._pods.values()))
        await self._api.__aexit__()

    def logs(self, namespace: str, pod: str) -> str:
        """Everything that a pod's containers have written, runs in order; also of pods that are gone."""
        files = sorted(log_folder(self._folder, namespace, pod).glob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    async def _follow(self, node: Node) -> None:
        """List and watch the pods of one node, for ever."""
        query = {"fieldSelector": f"spec.nodeName={node.name}"}
        while True:
            try:
                listed = await self._api.get("/api/v1/pods", **query) or {}
                items = listed.get("items", [])
                self._forget(node, {item["metadata"]["uid"] for item in items})
                for item in items:
                    self._see(item)
                version = listed["metadata"]["resourceVersion"]
                while True:
                    async for kind, item in self._api.watch("/api/v1/pods", version, **query):
                        version = item["metadata"]["resourceVersion"]
                        if kind == "DELETED":
                            self._lose(item["metadata"]["uid"])
                        elif kind != "BOOKMARK":
                            self._see(item)
            except ApiError as error:
                if error.status != 410:
                    log.warning("pods not followed", extra={"node": node.name, "error": str(error)})
                    await asyncio.sleep(RETRY_SECONDS)

    def _see(self, item: Object) -> None:
        meta, uid = item["metadata"], item["metadata"]["uid"]
        pod = self._pods.get(uid)
        if meta.get("deletionTimestamp"):
            if pod is None:
                pod = self._pods[uid] = Pod(self._ground, item)
            if not pod.is_ending:
                pod.is_ending = True
                grace = meta.get("deletionGracePeriodSeconds")
                self._later(self._end(uid, pod, None if grace is None else float(grace)))
        elif pod is None and item.get("status", {}).get("phase") not in ENDED:
            pod = self._pods[uid] = Pod(self._ground, item)
            pod.start()

    async def _end(self, uid: str, pod: Pod, grace_seconds: float | None) -> None:
        await pod.stop(grace_seconds)
        self._pods.pop(uid, None)

    def _lose(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._later(pod.abandon())

    def _forget(self, node: Node, present: set[str]) -> None:
        for uid, pod in list(self._pods.items()):
            if pod.node == node.name and uid not in present:
                self._lose(uid)

    def _later(self, deed: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(deed)
        self._stopping.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._stopping.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("pod not ended", exc_info=error)


def _commands(folder: Path) -> Path:
    """Make the folder with the programs that images of kvtune have."""
    commands = folder / "bin"
    commands.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    for name, what in {"python": python, "kvtune": f"{python} -m kvtune_cli"}.items():
        file = commands / name
        file.write_text(f'#!/bin/sh\nexec {what} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    return commands
