"""The control plane's clock, possibly scaled: the only module of this room that reads time.

Engine seconds are unix seconds that run `speed` times as fast from `origin` on; all processes of a demo share
both figures.
"""

import asyncio
import time
from datetime import UTC, datetime


class WallClock:
    """Implement `ports.Clock` over the machine's clock."""

    def __init__(self, *, origin: float = 0.0, speed: float = 1.0) -> None:
        self._origin = origin
        self._speed = speed

    def now(self) -> datetime:
        """The scaled time, aware."""
        return datetime.fromtimestamp(self._origin + (time.time() - self._origin) * self._speed, tz=UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep for scaled seconds; always lets other tasks run."""
        await asyncio.sleep(max(0.0, seconds) / self._speed)

    def unix_milliseconds(self) -> int:
        """The unscaled time since 1970, for fencing tokens."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Wall seconds that never go back, for durations."""
        return time.monotonic()
