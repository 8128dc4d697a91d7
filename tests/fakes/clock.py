"""A clock that only moves when a test says so, or by the sleeps of the code under test."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

ORIGIN = datetime(2030, 1, 1, tzinfo=UTC)
"""A multiple of the agents' grid."""


class FakeClock:
    """Implement `ports.Clock`. With `auto` a sleep moves the time at once; else `advance` wakes sleepers."""

    def __init__(self, origin: datetime = ORIGIN, *, auto: bool = True) -> None:
        self._now = origin
        self._auto = auto
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """The fake time."""
        return self._now

    @property
    def seconds(self) -> float:
        """The fake time as engine (unix) seconds."""
        return self._now.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass (auto), or wait until the test has advanced that far."""
        until = self._now + timedelta(seconds=max(0.0, seconds))
        if self._auto:
            self._now = max(self._now, until)
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (until, self._count, woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move the time and wake whoever has slept enough, the earliest first."""
        self._now += timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)

    @property
    def sleepers(self) -> int:
        """How many sleeps have not ended."""
        return sum(not woken.done() for _, _, woken in self._sleepers)
