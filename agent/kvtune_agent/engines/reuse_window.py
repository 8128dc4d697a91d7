"""Reuse ages over the last hour: differences of a model's counters since its start.

Called by replay.py. An hour, because the mix drifts and first touches after a start are not typical.
"""

from collections import deque

from kvtune_api.wire import ReuseAges
from kvtune_cache.reuse import BINS_PER_OCTAVE, ReuseHistogram

WINDOW_SECONDS = 3600.0
STEP_SECONDS = 300.0
"""How often the counters are noted: the window is up to one step longer than an hour."""


class ReuseWindow:
    """Notes of reuse counters, some minutes apart, at least one of them an hour old."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: deque[tuple[float, ReuseHistogram]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was noted yet."""
        return not self._notes

    def note(self, at: float, counts: ReuseHistogram) -> None:
        """Note the counters at a time, later than all before."""
        self._notes.append((at, counts))
        while len(self._notes) > 1 and self._notes[1][0] <= at - WINDOW_SECONDS:
            self._notes.popleft()

    def is_due(self, at: float) -> bool:
        """Whether the last note is a step old."""
        return not self._notes or at - self._notes[-1][0] >= STEP_SECONDS

    def ages(self, at: float, counts: ReuseHistogram) -> ReuseAges | None:
        """What was counted from the oldest note of the window to `at`; None when no block was touched."""
        if not self._notes:
            return None
        since, before = self._oldest(at)
        touches = counts.touches - before.touches
        if at <= since or touches == 0:
            return None
        return ReuseAges(
            touches=touches,
            prompt_blocks=counts.prompt_blocks - before.prompt_blocks,
            seconds=at - since,
            first_edge_seconds=counts.upper_edges_s[0],
            bins_per_octave=BINS_PER_OCTAVE,
            counts=tuple(new - old for new, old in zip(counts.counts, before.counts, strict=True)),
        )

    def _oldest(self, at: float) -> tuple[float, ReuseHistogram]:
        """The youngest note that is an hour old, else the oldest one."""
        old = [note for note in self._notes if note[0] <= at - WINDOW_SECONDS]
        return old[-1] if old else self._notes[0]
