"""A bound on what is under way at once, shared fairly: who holds least comes first, and nobody holds nothing.

A queue in order of arrival lets whoever asks slow peers hold every slot, and everybody else waits for them.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Hashable

Waiter = tuple[float, int, asyncio.Future[None]]
"""Rank, order of arrival, and what is told."""


class FairGate:
    """At most `slots` at once, but for `floor` slots that each caller has in any case.

    With `settle_seconds` a slot is given that long after it was asked for, so that ranks are compared first.
    """

    def __init__(self, slots: int, *, floor: int = 1, settle_seconds: float = 0.0) -> None:
        self._slots = slots
        self._floor = floor
        self._settle_seconds = settle_seconds
        self._settling: asyncio.TimerHandle | None = None
        self._held: dict[Hashable, int] = {}
        self._total = 0
        self._waiting: dict[Hashable, list[Waiter]] = {}
        self._arrivals = itertools.count()

    @contextlib.asynccontextmanager
    async def slot(
        self, caller: Hashable, *, rank: float = 0.0, within_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Hold one slot; of one caller the lowest rank comes first. Raises `TimeoutError` after the wait."""
        await self._taken(caller, rank, within_seconds)
        try:
            yield
        finally:
            self._given_back(caller)

    async def _taken(self, caller: Hashable, rank: float, within_seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting.setdefault(caller, []), (rank, next(self._arrivals), told))
        if not self._settle_seconds:
            self._admit()
        elif self._settling is None:
            self._settling = loop.call_later(self._settle_seconds, self._settled)
        try:
            async with asyncio.timeout(within_seconds):
                await told
        except BaseException:
            if told.done() and not told.cancelled():
                self._given_back(caller)
            else:
                self._left(caller, told)
            raise

    def _settled(self) -> None:
        self._settling = None
        self._admit()

    def _given_back(self, caller: Hashable) -> None:
        self._total -= 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        if self._settling is None:
            self._admit()

    def _left(self, caller: Hashable, told: asyncio.Future[None]) -> None:
        """Somebody does not wait any more."""
        told.cancel()
        if all(waiter[2].cancelled() for waiter in self._waiting.get(caller, ())):
            self._waiting.pop(caller, None)

    def _admit(self) -> None:
        """Give free slots to those who hold least."""
        while self._waiting:
            caller = min(self._waiting, key=self._holds)
            if self._holds(caller) >= self._floor and self._total >= self._slots:
                return
            queue = self._waiting[caller]
            told = heapq.heappop(queue)[2]
            if not queue:
                del self._waiting[caller]
            if not told.done():
                self._held[caller] = self._holds(caller) + 1
                self._total += 1
                told.set_result(None)

    def _holds(self, caller: Hashable) -> int:
        return self._held.get(caller, 0)
