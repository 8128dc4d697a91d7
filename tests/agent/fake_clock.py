"""An agent's clock that moves only when a test says so."""

import asyncio

ORIGIN = 1_900_000_000.0
"""A multiple of the agents' grid, engine seconds."""


class FakeClock:
    """Implement `kvtune_agent.clock.Clock`; `advance` moves wall and engine time together."""

    def __init__(self, *, speed: float = 1.0, now: float = ORIGIN) -> None:
        self.speed = speed
        self._now = now
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        """The engine's time."""
        return self._now

    def monotonic(self) -> float:
        """Wall seconds."""
        return self._monotonic

    async def sleep(self, wall_seconds: float) -> None:
        """Wait until the test has advanced that far."""
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic + wall_seconds, woken))
        await woken

    def advance(self, wall_seconds: float) -> None:
        """Let wall seconds pass and wake whoever has slept enough."""
        self._monotonic += wall_seconds
        self._now += wall_seconds * self.speed
        due = [woken for until, woken in self._sleepers if until <= self._monotonic]
        self._sleepers = [(until, woken) for until, woken in self._sleepers if until > self._monotonic]
        for woken in due:
            if not woken.done():
                woken.set_result(None)
