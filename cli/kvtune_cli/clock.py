"""The command line's clock: the only module of this room that reads time."""

import time
from datetime import UTC, datetime

ORIGIN_HELP = "Unix second at which the scaled clock and wall time agree; leave it out for real time."
"""What `--origin` is, for every command that has a clock."""


def now() -> datetime:
    """The time, aware."""
    return datetime.now(tz=UTC)


def unix_milliseconds() -> int:
    """The time since 1970."""
    return time.time_ns() // 1_000_000


def unix_seconds() -> float:
    """The time since 1970, in seconds."""
    return time.time()


def monotonic() -> float:
    """Wall seconds that never go back, for durations."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait for wall seconds."""
    time.sleep(seconds)
