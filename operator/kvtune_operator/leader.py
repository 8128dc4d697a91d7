"""The replica that works: takes its fencing token, runs one task per policy, and stops in good order.

Knows the parts only by what they do. Called by cluster.py while the lease is held, and cancelled when it is
lost: then nothing is restored.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from kvtune_api.errors import Unavailable
from kvtune_operator.clock import WallClock
from kvtune_operator.cluster_settings import ClusterSettings
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.cluster_vitals import ClusterVitals, Stage
from kvtune_operator.handlers import Login, Watcher, watch
from kvtune_operator.house import Key
from kvtune_operator.live_config import LiveConfig
from kvtune_operator.observed import ObservedClock
from kvtune_operator.policy_tasks import Hooks, PolicyTasks
from kvtune_operator.reconcile import RunEnd
from kvtune_operator.side_tasks import lasting
from kvtune_operator.task_clock import TaskClock, first_delay_seconds, offset_seconds

if TYPE_CHECKING:
    from kvtune_operator.cluster_parts import Parts

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 2.0
"""Between two tries of what a start needs."""

RELIST_SECONDS = 60.0
"""What a watch has missed is found within this."""


class LeaderEnd(StrEnum):
    """Why a leader ended by itself."""

    STOPPED = "Stopped"
    FENCED = "Fenced"


class Held(Protocol):
    """The lease that is held."""

    async def take_token(self, floor: int) -> int:
        """A new fencing token above `floor`."""
        ...

    async def renew(self) -> None:
        """Renew once, and see what others have written; raise `LeaseLost` when it is another's."""
        ...

    async def confirms(self, token: int) -> bool:
        """Whether the lease, read anew, is ours and carries this token. Raises `Unavailable`."""
        ...

    def standby_waits(self) -> bool:
        """Whether another replica is there to go on."""
        ...


class Leader:
    """One leadership."""

    def __init__(
        self,
        *,
        parts: "Parts",
        lease: Held,
        config: LiveConfig,
        settings: ClusterSettings,
        clock: WallClock,
        vitals: ClusterVitals,
        telemetry: ClusterTelemetry,
        login: Callable[[], Awaitable[Login]],
    ) -> None:
        self._parts = parts
        self._lease = lease
        self._config = config
        self._settings = settings
        self._clock = clock
        self._vitals = vitals
        self._telemetry = telemetry
        self._login = login
        self._restore = asyncio.Event()
        self._leave = asyncio.Event()
        self._token = 0
        self._started = 0
        self._first_delays: dict[Key, float] = {}
        self._tasks = PolicyTasks(
            self._run_policy, clock.sleep, Hooks(crashed=self._crashed, ended=self._ended)
        )

    async def run(self, stop: asyncio.Event) -> LeaderEnd:
        """Work until told to stop, or until a newer control plane has taken over the agents."""
        self._vitals.stage = Stage.STARTING
        began = asyncio.create_task(self._begin(), name="start")
        try:
            await _either(began, stop.wait())
            if not began.done():
                return LeaderEnd.STOPPED
            began.result()
        finally:
            began.cancel()
            await asyncio.gather(began, return_exceptions=True)
        self._vitals.stage = Stage.LEADING
        self._vitals.tasks = lambda: tuple("/".join(key) for key in self._tasks.keys)
        async with self._beside():
            await _either(stop.wait(), self._tasks.fenced.wait())
            self._vitals.stage = Stage.STOPPING
            return await self._end()

    async def _begin(self) -> None:
        """Settings, policies, token: what nothing can be done without. Waits for each, and says so."""
        await self._config.refresh()
        listed = await self._patiently(self._parts.policies)
        await self._parts.free_orphans()
        floor = await self._parts.highest_token(listed)
        self._token = await self._patiently(lambda: self._lease.take_token(floor))
        self._telemetry.leads(self._token)
        log.info("started", extra={"token": self._token, "policies": len(listed)})
        self._vitals.waits_for = ""
        for index, item in enumerate(listed):
            self._first_delays[item.key] = first_delay_seconds(
                index, len(listed), self._settings.tick_seconds
            )
            self._tasks.seen(item.key, item.mark)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer; each new reason for waiting is told once, also by /readyz."""
        while True:
            try:
                return await ask()
            except Unavailable as error:
                if str(error) != self._vitals.waits_for:
                    log.error("cannot start yet, trying again", extra={"error": str(error)})
                self._vitals.waits_for = str(error)
                await self._clock.sleep(RETRY_SECONDS)

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        """Watch policies and settings; whatever happens within, no task is left at the end."""
        watcher = Watcher(
            login=self._login,
            namespaces=self._settings.watch_namespaces,
            seen=self._tasks.seen,
            gone=self._tasks.gone,
            unix_seconds=lambda: self._clock.unix_milliseconds() / 1000,
        )
        sleep, down = self._clock.sleep, self._vitals.down
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "watch": lambda: watch(watcher, sleep),
            "list": self._relist,
            "settings": lambda: self._config.follow(sleep),
        }
        others = [
            asyncio.create_task(lasting(name, work, sleep=sleep, down=down), name=name)
            for name, work in works.items()
        ]
        try:
            yield
        finally:
            for task in others:
                task.cancel()
            await self._tasks.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _relist(self) -> None:
        while True:
            self._telemetry.holds(len(self._tasks.keys), self._parts.house.live)
            await self._clock.sleep(RELIST_SECONDS)
            try:
                listed = await self._parts.policies()
            except Unavailable as error:
                log.warning("policies not listed", extra={"error": str(error)})
                continue
            self._tasks.listed({item.key: item.mark for item in listed})

    async def _end(self) -> LeaderEnd:
        """Leave everything to a standby, or restore the incumbents; bounded."""
        await self._lease.renew()
        if self._tasks.fenced.is_set():
            log.error("a newer control plane has taken over these agents", extra={"token": self._token})
            self._leave.set()
        elif self._lease.standby_waits():
            log.info("another replica stands by: handing over")
            self._leave.set()
        else:
            log.info("no other replica stands by: agents return to their incumbents")
            self._restore.set()
        try:
            async with asyncio.timeout(self._settings.stop_seconds):
                await self._tasks.finish()
        except TimeoutError:
            left = ", ".join("/".join(key) for key in self._tasks.keys)
            log.warning("stopped before all was restored: leases do the rest", extra={"policies": left})
        return LeaderEnd.FENCED if self._tasks.fenced.is_set() else LeaderEnd.STOPPED

    async def _run_policy(self, key: Key, waker: asyncio.Event) -> RunEnd:
        name = "/".join(key)
        tick = self._settings.tick_seconds
        own = TaskClock(
            self._clock,
            waker,
            offset=offset_seconds(self._started, tick),
            tick_seconds=tick,
            stopping=self._restore.is_set,
        )
        self._started += 1
        self._vitals.pulse.steps[name] = self._clock.monotonic()
        if delay := self._first_delays.pop(key, 0.0):
            await own.pause(delay)
        clock = ObservedClock(own, self._vitals.pulse, self._telemetry, self._clock.monotonic, policy=name)
        async with self._parts.reconciler(key, clock, self._token, self._in_charge) as reconciler:
            return await reconciler.run(key[1], self._restore, self._leave)

    async def _in_charge(self) -> bool:
        return await self._lease.confirms(self._token)

    async def _crashed(self, key: Key, error: Exception) -> None:
        name = "/".join(key)
        self._vitals.pulse.steps[name] = self._clock.monotonic()
        self._telemetry.bug(name)
        await self._parts.tell_bug(key, error)

    def _ended(self, key: Key) -> None:
        name = "/".join(key)
        self._parts.house.gone(key)
        self._telemetry.gone(name)
        pulse = self._vitals.pulse
        for kept in (pulse.steps, pulse.policies, pulse.experiments):
            kept.pop(name, None)


async def _either(*awaited: Awaitable[object]) -> None:
    """Wait for the first of several; the others that were coroutines are ended."""
    given = {item for item in awaited if isinstance(item, asyncio.Task)}
    tasks = [asyncio.ensure_future(item) for item in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        mine = [task for task in tasks if task not in given]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
