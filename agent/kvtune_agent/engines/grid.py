"""Counters at every multiple of 5 s of the engine's clock, kept for a while.

A row is an array of doubles (about 0.5 KiB), because hours of a scaled clock are thousands of rows.
"""

from collections.abc import Sequence
from math import floor

from kvtune_api.wire import GRID_SECONDS

Row = Sequence[float]
"""All counters at one time, in the order of rows.py."""


def grid_at_or_before(seconds: float) -> int:
    """The last multiple of the grid at or before a time."""
    return floor(seconds / GRID_SECONDS) * GRID_SECONDS


class GridRows:
    """Rows by grid time, the oldest dropped when they are older than `keep_seconds` before the newest."""

    __slots__ = ("_keep_seconds", "_rows", "newest_at")

    def __init__(self, keep_seconds: float) -> None:
        self._keep_seconds = keep_seconds
        self._rows: dict[int, Row] = {}
        self.newest_at: int | None = None

    def __len__(self) -> int:
        """How many rows are kept."""
        return len(self._rows)

    @property
    def oldest_at(self) -> int | None:
        """The oldest time that is kept."""
        return next(iter(self._rows), None)

    def close(self, at: int, row: Row) -> None:
        """Keep the final row of a grid time, which must be later than all before."""
        assert at % GRID_SECONDS == 0, at
        assert self.newest_at is None or at > self.newest_at, (at, self.newest_at)
        self._rows[at] = row
        self.newest_at = at
        while (oldest := next(iter(self._rows))) < at - self._keep_seconds:
            del self._rows[oldest]

    def row(self, at: float) -> Row | None:
        """The row of a grid time; None when it is not kept."""
        return self._rows.get(int(at)) if at == int(at) else None

    def row_at_or_after(self, at: int) -> tuple[int, Row] | None:
        """The first row kept at a grid time or later; None when there is none."""
        oldest, newest = self.oldest_at, self.newest_at
        if oldest is None or newest is None or at > newest:
            return None
        at = max(at, oldest)
        while at not in self._rows:
            at += GRID_SECONDS
        return at, self._rows[at]
