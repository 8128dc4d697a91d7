"""The clock of one policy's task: ticks spread over the interval, woken early, quick while stopping."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from kvtune_operator.ports import Clock

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, lie evenly in [0, 1) however many there are."""

LEAST_SECONDS = 0.05
FIRST_APART_SECONDS = 0.1
"""Between the first steps of tasks that start together. Measured: 50 policies of 20 agents that take their
first step at once keep a busy machine's loop from renewing a lease of 6 s."""

STOPPING_SECONDS = 1.0
"""Between two steps while incumbents are restored."""


def offset_seconds(index: int, tick_seconds: float) -> float:
    """When in the interval the task with this number ticks."""
    return (index * GOLDEN) % 1.0 * tick_seconds


def first_delay_seconds(index: int, count: int, tick_seconds: float) -> float:
    """When the task with this place among `count` that start together takes its first step: within a tick."""
    return index * min(FIRST_APART_SECONDS, tick_seconds / max(1, count))


class TaskClock(Clock):
    """A clock whose sleeps end at the task's own moment of each interval, or when it is woken."""

    def __init__(
        self,
        clock: Clock,
        waker: asyncio.Event,
        *,
        offset: float,
        tick_seconds: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._waker = waker
        self._offset = offset
        self._tick = tick_seconds
        self._stopping = stopping

    def now(self) -> datetime:
        """The clock's time."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Sleep until the task's next moment, whatever the grid says; a waking ends it early."""
        await self.pause(self._until_next())

    async def pause(self, seconds: float) -> None:
        """Sleep for so long; a waking ends it early."""
        woken = asyncio.ensure_future(self._waker.wait())
        slept = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((woken, slept), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()
            await asyncio.gather(woken, slept, return_exceptions=True)
        self._waker.clear()

    def _until_next(self) -> float:
        if self._stopping():
            return min(STOPPING_SECONDS, self._tick)
        past = (self._clock.now().timestamp() - self._offset) % self._tick
        left = self._tick - past
        return left if left > LEAST_SECONDS else left + self._tick
