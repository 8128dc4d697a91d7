"""One pod: volumes, containers and status, from its binding to its deletion."""

import asyncio
import contextlib
import logging
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.kubelet_standin.addresses import PodAddress, free_address
from tools.kubelet_standin.api import Api, ApiError, Object
from tools.kubelet_standin.clock import timestamp
from tools.kubelet_standin.container import Container, Hooks
from tools.kubelet_standin.environment import NotYet, environment_of, expand
from tools.kubelet_standin.events import Events
from tools.kubelet_standin.images import ROOT, command_of
from tools.kubelet_standin.process import Run
from tools.kubelet_standin.status import pod_status
from tools.kubelet_standin.volumes import Volumes

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.5
REFRESH_SECONDS = 2.0
GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all pods of one stand-in share."""

    api: Api
    folder: Path
    commands: Path
    """A folder with `python` and `kvtune`, first on every PATH."""


class Pod:
    """A pod that runs. `live` runs it until it ends for good; `stop` ends and deletes it."""

    def __init__(self, ground: Ground, pod: Object) -> None:
        self._ground = ground
        self._pod = pod
        meta = pod["metadata"]
        self.uid = str(meta["uid"])
        self.node = str(pod["spec"]["nodeName"])
        self.is_ending = False
        self._path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._folder = ground.folder / "pods" / self.uid
        shutil.rmtree(self._folder, ignore_errors=True)  # of a stand-in that was killed
        self._logs = log_folder(ground.folder, meta["namespace"], meta["name"])
        self._address: PodAddress = free_address(hash(self.uid) % 2**32)
        self._volumes = Volumes(ground.api, pod, self._folder / "volumes", self._address.address)
        self._events = Events(ground.api, pod)
        self._changed = asyncio.Event()
        self._began = timestamp()
        self._reported: Object | None = None
        self._ready_since: dict[str, tuple[str, str]] = {}
        spec = pod["spec"]
        self._grace = float(spec.get("terminationGracePeriodSeconds", GRACE_SECONDS))
        policy = spec.get("restartPolicy", "Always")
        early = "Never" if policy == "Never" else "OnFailure"
        self.inits = [self._container(c, early) for c in spec.get("initContainers", ())]
        self.containers = [self._container(c, policy) for c in spec["containers"]]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to live."""
        for deed in (self._live(), self._report(), self._refresh()):
            self._tasks.append(asyncio.create_task(deed, name=f"{self._path}"))

    async def stop(self, grace_seconds: float | None = None) -> None:
        """End every container within the grace, say so, and delete the pod's object for good."""
        self.is_ending = True
        grace = self._grace if grace_seconds is None else grace_seconds
        everything = [*self.inits, *self.containers]
        await asyncio.gather(*(container.stop(grace) for container in everything))
        await self._cancel()
        await self._status_written()
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        with contextlib.suppress(ApiError):  # gone already, or replaced by another of its name
            await self._ground.api.delete(self._path, body)
        self._close()

    async def abandon(self) -> None:
        """Kill every container and leave the object alone, for it is gone or the node stops."""
        self.is_ending = True
        for container in (*self.inits, *self.containers):
            container.stopping = True
        await self._cancel()
        self._close()

    async def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("pod task failed", exc_info=result, extra={"pod": self._path})

    def _close(self) -> None:
        self._address.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _container(self, spec: Object, restart_policy: str) -> Container:
        hooks = Hooks(
            prepare=self._prepare,
            changed=self._changed.set,
            event=self._events.tell,
            address=self._address.address,
            restart_policy=restart_policy,
            grace_seconds=self._grace,
        )
        return Container(spec=spec, hooks=hooks)

    async def _live(self) -> None:
        while True:
            try:
                await self._volumes.refresh()
                break
            except (NotYet, ApiError) as error:
                await self._events.tell("Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")
            await asyncio.sleep(WAIT_SECONDS)
        for container in self.inits:
            await container.live()
            if container.exit_code != 0:
                return
            container.ready = True
            self._changed.set()
        async with asyncio.TaskGroup() as group:
            for container in self.containers:
                group.create_task(container.live())

    async def _refresh(self) -> None:
        while self._volumes.change:
            await asyncio.sleep(REFRESH_SECONDS)
            with contextlib.suppress(NotYet, ApiError):  # files stay as they are
                await self._volumes.refresh()

    async def _prepare(self, container: Object, run: int) -> Run:
        address = self._address.address
        asked = await environment_of(self._ground.api, self._pod, container, address)
        access = self._ground.api.access
        environment = {
            "PATH": f"{self._ground.commands}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "HOSTNAME": self._pod["metadata"]["name"],
            "PYTHONUNBUFFERED": "1",
            "KUBERNETES_SERVICE_HOST": access.host,
            "KUBERNETES_SERVICE_PORT": str(access.port),
            **asked,
        }
        command = command_of(container["image"], container.get("command", []), container.get("args", []))
        security = container.get("securityContext") or {}
        return Run(
            command=[expand(part, asked) for part in command],
            environment=environment,
            mounts=self._volumes.mounts(container),
            keep=sorted({str(ROOT), sys.prefix, sys.base_prefix, str(self._ground.commands)}),
            read_only_root=bool(security.get("readOnlyRootFilesystem")),
            directory=container.get("workingDir", "/"),
            log=self._logs / f"{container['name']}.{run}.log",
            folder=self._folder / "containers" / container["name"],
        )

    async def _report(self) -> None:
        while True:
            self._changed.clear()
            if not await self._status_written():
                self._changed.set()
                await asyncio.sleep(WAIT_SECONDS)
            await self._changed.wait()

    async def _status_written(self) -> bool:
        """Write the status if it changed; say whether the server has it now."""
        status = pod_status(
            self._pod,
            [container.status() for container in self.inits],
            [container.status() for container in self.containers],
            address=self._address.address,
            began=self._began,
            since=self._ready_since,
        )
        if status == self._reported:
            return True
        try:
            body = {"metadata": {"uid": self.uid}, "status": status}
            await self._ground.api.merge(f"{self._path}/status", body)
        except ApiError as error:
            if error.status not in (409, 422):
                log.warning("status not written", extra={"pod": self._path, "error": str(error)})
                return False
        self._reported = status
        return True


def log_folder(folder: Path, namespace: str, pod: str) -> Path:
    """Where a pod's logs are: CONTAINER.RUN.log, the run counted from 0."""
    return folder / "logs" / namespace / pod
