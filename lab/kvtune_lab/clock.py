"""The scaled clock of a demo: virtual unix time runs from a common origin at a common speed.

The only module of the lab that reads a clock. Origin and speed are equal for all processes of a demo.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledClock:
    """Virtual unix seconds = origin + (wall - origin) x speed; `wall` is a parameter for tests alone."""

    origin_unix_s: float
    speed: float = 1.0
    wall: Callable[[], float] = field(default=time.time)

    def __post_init__(self) -> None:
        """Refuse a clock that stands still or runs backwards."""
        if not 0 < self.speed < float("inf"):
            raise ValueError(f"speed: {self.speed} is not a finite number above 0")

    def now_s(self) -> float:
        """Give the virtual unix time."""
        return self.origin_unix_s + (self.wall() - self.origin_unix_s) * self.speed

    def wall_seconds_until(self, virtual_unix_s: float) -> float:
        """Give the wall seconds until a virtual time, never less than 0."""
        return max(0.0, (virtual_unix_s - self.now_s()) / self.speed)
