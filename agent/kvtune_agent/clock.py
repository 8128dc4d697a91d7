"""The clocks of an agent: the engine's, which a demo may scale, and the wall's, which nobody may.

The only reader of clocks in this room. Leases and grace times count `monotonic` wall seconds; everything that
the control plane compares between agents counts engine seconds."""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Time as an agent needs it."""

    @property
    def speed(self) -> float:
        """Engine seconds in one wall second."""
        ...

    def now(self) -> float:
        """The engine's time, unix seconds unless scaled."""
        ...

    def monotonic(self) -> float:
        """Wall seconds since some moment; never goes back, never scaled."""
        ...

    async def sleep(self, wall_seconds: float) -> None:
        """Sleep for wall seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The machine's clock; engine time = origin + (wall - origin) * speed, so speed 1 is unix time itself.

    `origin` is in unix seconds and equal in all processes of one demo.
    """

    origin: float = 0.0
    speed: float = 1.0

    def now(self) -> float:
        """The engine's time, seconds."""
        return self.origin + (time.time() - self.origin) * self.speed

    def monotonic(self) -> float:
        """Wall seconds since some moment."""
        return time.monotonic()

    async def sleep(self, wall_seconds: float) -> None:
        """Sleep for wall seconds."""
        await asyncio.sleep(wall_seconds)
