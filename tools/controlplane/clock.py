"""Wait for processes: the only place of this package that reads a clock."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.05


def seconds() -> float:
    """Return monotonic seconds since no particular moment."""
    return time.monotonic()  # noqa: TID251 - the clock of this package


def pause(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)  # noqa: TID251 - the clock of this package


def until(
    ask: Callable[[], T | None], within_seconds: float, *, every_seconds: float = LOOK_SECONDS
) -> T | None:
    """Ask again and again until there is an answer (neither None nor False); None when time is up."""
    deadline = seconds() + within_seconds
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        if seconds() > deadline:
            return None
        pause(every_seconds)
