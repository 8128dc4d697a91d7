"""One container of a pod over all its runs: start, probe, restart with growing delays, stop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tools.kubelet_standin.api import ApiError, Object
from tools.kubelet_standin.clock import monotonic, timestamp
from tools.kubelet_standin.environment import NotYet
from tools.kubelet_standin.images import NoImage
from tools.kubelet_standin.probes import Probe
from tools.kubelet_standin.process import Process, Run

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 8.0
CALM_SECONDS = 60.0
"""A run of so many seconds forgets the delays, as 10 minutes do in the kubelet."""

RETRY_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class Hooks:
    """What a container needs of its pod."""

    prepare: Callable[[Object, int], Awaitable[Run]]
    """What the n-th run is; raises `NotYet` and `NoImage`."""

    changed: Callable[[], None]
    """Something of the status changed."""

    event: Callable[[str, str, str], Awaitable[None]]
    """Tell type, reason and message."""

    address: str
    restart_policy: str
    grace_seconds: float


@dataclass(slots=True, kw_only=True)
class Container:
    """A container: its state is what the pod's status says of it."""

    spec: Object
    hooks: Hooks
    state: Object = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: Object = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restarts: int = 0
    process: Process | None = None
    stopping: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no process of it runs, once the state says so."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    @property
    def exit_code(self) -> int | None:
        """Its last exit code, once it has ended for good."""
        code = self.state.get("terminated", {}).get("exitCode")
        return None if code is None else int(code)

    def status(self) -> Object:
        """Its part of the pod's status."""
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": f"standin://{self.spec['image']}",
            "containerID": f"standin://{self.name}-{self.restarts}",
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        }

    async def live(self) -> None:
        """Run it, again and again if its pod's policy says so, until it ends for good or is stopped."""
        delay = FIRST_DELAY_SECONDS
        while not self.stopping:
            began = monotonic()
            code = await self._run_once()
            policy = self.hooks.restart_policy
            if self.stopping or policy == "Never" or (policy == "OnFailure" and code == 0):
                return
            if monotonic() - began >= CALM_SECONDS:
                delay = FIRST_DELAY_SECONDS
            self.last_state = self.state
            said = f"back-off {delay:g}s restarting failed container={self.name}"
            self._turn({"waiting": {"reason": "CrashLoopBackOff", "message": said}})
            await self.hooks.event("Warning", "BackOff", f"Back-off restarting failed container {self.name}")
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)
            self.restarts += 1

    async def stop(self, grace_seconds: float) -> None:
        """End it for good."""
        self.stopping = True
        if self.process is not None:
            await self.process.stop(grace_seconds)
            await self.idle.wait()

    async def _run_once(self) -> int:
        run = await self._prepared()
        process = self.process = await Process.start(run)
        self.idle.clear()
        began = timestamp()
        self.started = "startupProbe" not in self.spec
        self.ready = self.started and "readinessProbe" not in self.spec
        self._turn({"running": {"startedAt": began}})
        probing = asyncio.create_task(self._probe(process))
        try:
            code = await process.ended()
        finally:
            probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probing
            await process.kill()
            self.process = None
        self.ready = self.started = False
        reason = "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": timestamp()}
        self._turn({"terminated": ended})
        self.idle.set()
        return code

    async def _prepared(self) -> Run:
        while True:
            try:
                return await self.hooks.prepare(self.spec, self.restarts)
            except NoImage as error:
                reason, message = "ErrImagePull", str(error)
            except NotYet as error:
                reason, message = "CreateContainerConfigError", str(error)
            except ApiError as error:
                reason, message = "ContainerCreating", str(error)
            self._turn({"waiting": {"reason": reason, "message": message}})
            await asyncio.sleep(RETRY_SECONDS)

    async def _probe(self, process: Process) -> None:
        """Run the startup probe until it passes, then the others, all the time."""
        if not self.started:
            passed = asyncio.Event()

            async def starting(good: bool) -> None:
                if good:
                    passed.set()
                else:
                    await self._kill(process, "startup", startup.message)

            startup = Probe(self.spec["startupProbe"], self.spec, process, self.hooks.address)
            task = asyncio.create_task(startup.watch(starting))
            try:
                await passed.wait()
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            self.started = True
            self.ready = "readinessProbe" not in self.spec
            self.hooks.changed()
        async with asyncio.TaskGroup() as group:
            for kind in ("readiness", "liveness"):
                if f"{kind}Probe" in self.spec:
                    probe = Probe(self.spec[f"{kind}Probe"], self.spec, process, self.hooks.address)
                    turned = self._readied if kind == "readiness" else self._lived
                    group.create_task(probe.watch(_with(turned, probe, process)))

    async def _readied(self, good: bool, probe: Probe, _process: Process) -> None:
        if self.ready is not good:
            self.ready = good
            self.hooks.changed()
        if not good:
            await self.hooks.event("Warning", "Unhealthy", f"Readiness probe failed: {probe.message}")

    async def _lived(self, good: bool, probe: Probe, process: Process) -> None:
        if not good:
            await self._kill(process, "liveness", probe.message)

    async def _kill(self, process: Process, kind: str, message: str) -> None:
        await self.hooks.event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {message}")
        said = f"Container {self.name} failed {kind} probe, will be restarted"
        await self.hooks.event("Normal", "Killing", said)
        await process.stop(self.hooks.grace_seconds)

    def _turn(self, state: Object) -> None:
        if state != self.state:
            self.state = state
            self.hooks.changed()


def _with(
    turned: Callable[[bool, Probe, Process], Awaitable[None]], probe: Probe, process: Process
) -> Callable[[bool], Awaitable[None]]:
    async def changed(good: bool) -> None:
        await turned(good, probe, process)

    return changed
