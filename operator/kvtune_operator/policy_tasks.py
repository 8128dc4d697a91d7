"""One serial task per policy: started when a policy is seen, woken by its changes, ended with it.

Knows neither Kubernetes nor kopf. A task that fails by a bug is told of and started again later; the others
live on. Who misses an event is found by `listed`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kvtune_operator.house import Key
from kvtune_operator.reconcile import RunEnd

log = logging.getLogger(__name__)

BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Between a bug and the next try."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What of a policy calls for a step before its time: all but its status."""

    uid: str
    generation: int = 0
    deleted: bool = False
    wishes: tuple[tuple[str, str], ...] = ()
    """Our own annotations."""


@dataclass(slots=True)
class _Running:
    """A policy's task."""

    mark: Mark
    waker: asyncio.Event
    task: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the tasks tell their owner."""

    crashed: Callable[[Key, Exception], Awaitable[None]]
    """A bug: leave an event; must not fail."""

    ended: Callable[[Key], None]
    """A policy is gone."""


@dataclass(slots=True)
class PolicyTasks:
    """The tasks of all policies, within one event loop."""

    run: Callable[[Key, asyncio.Event], Awaitable[RunEnd]]
    """Runs one policy until it is gone or all are to stop; the event wakes it from its sleep."""

    sleep: Sleep
    hooks: Hooks
    fenced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a newer control plane has refused us."""

    _running: dict[Key, _Running] = field(default_factory=dict)
    _ended: dict[Key, Mark] = field(default_factory=dict)
    _closed: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        """Policies that have a task, sorted."""
        return tuple(sorted(self._running))

    def seen(self, key: Key, mark: Mark) -> None:
        """Start a policy's task, or wake it when more than its status has changed."""
        if self._closed or self._ended.get(key) == mark:
            return
        self._ended.pop(key, None)
        held = self._running.get(key)
        if held is None:
            self._start(key, mark)
        elif held.mark != mark:
            held.mark = mark
            held.waker.set()

    def gone(self, key: Key) -> None:
        """Wake a policy's task: it will find that its policy is gone, and end."""
        self._ended.pop(key, None)
        if held := self._running.get(key):
            held.waker.set()

    def listed(self, marks: Mapping[Key, Mark]) -> None:
        """Take a whole list: start what was missed, wake whose policy is gone."""
        for key, mark in marks.items():
            self.seen(key, mark)
        for key in self._running.keys() - marks.keys():
            self.gone(key)
        for key in self._ended.keys() - marks.keys():
            del self._ended[key]

    def wake_all(self) -> None:
        """Let every task take its next step now."""
        for held in self._running.values():
            held.waker.set()

    async def finish(self) -> None:
        """Start no more, and wait until every task has ended by itself."""
        self._closed = True
        self.wake_all()
        while tasks := self._tasks():
            await asyncio.wait(tasks)

    async def cancel(self) -> None:
        """End every task where it stands."""
        self._closed = True
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self) -> list["asyncio.Task[None]"]:
        return [held.task for held in self._running.values() if held.task is not None]

    def _start(self, key: Key, mark: Mark) -> None:
        held = _Running(mark=mark, waker=asyncio.Event())
        self._running[key] = held
        held.task = asyncio.create_task(self._life(key, held), name="policy " + "/".join(key))
        log.info("policy taken up", extra={"namespace": key[0], "policy": key[1]})

    async def _life(self, key: Key, held: _Running) -> None:
        """Run until the policy's end; again after every bug, and when one of its name came while it ended."""
        failures = 0
        try:
            while True:
                uid = held.mark.uid
                try:
                    end = await self.run(key, held.waker)
                except Exception as error:  # a bug in one policy's step must not end the others
                    log.exception("step failed by a bug", extra={"namespace": key[0], "policy": key[1]})
                    await self.hooks.crashed(key, error)
                    await self._pause(held, BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                    if self._closed:
                        return
                    failures += 1
                    continue
                self._note_end(key, held, end)
                if end is not RunEnd.REMOVED or held.mark.uid == uid or self._closed:
                    return
                log.info("policy is there anew", extra={"namespace": key[0], "policy": key[1]})
                del self._ended[key]
        finally:
            del self._running[key]

    async def _pause(self, held: _Running, seconds: float) -> None:
        """Wait after a bug; a change of the policy, and the end of all, cut it short."""
        woken = asyncio.ensure_future(held.waker.wait())
        slept = asyncio.ensure_future(self.sleep(seconds))
        try:
            await asyncio.wait((woken, slept), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()
            await asyncio.gather(woken, slept, return_exceptions=True)
        held.waker.clear()

    def _note_end(self, key: Key, held: _Running, end: RunEnd) -> None:
        log.info("policy left", extra={"namespace": key[0], "policy": key[1], "end": end.value})
        if end is RunEnd.FENCED:
            self.fenced.set()
        if end is RunEnd.REMOVED:
            self._ended[key] = held.mark
            self.hooks.ended(key)
