"""The stand-in's clock: the only module of this package that reads time."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The time, aware."""
    return datetime.now(tz=UTC)  # noqa: TID251  # this is the clock


def timestamp() -> str:
    """The time as Kubernetes writes it, to the second."""
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """The time as Leases write it."""
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def monotonic() -> float:
    """Wall seconds that never go back, for durations."""
    return time.monotonic()  # noqa: TID251  # this is the clock
