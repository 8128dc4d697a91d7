"""How long blocks wait for their next touch, counted apart from any configuration (Denning's working set).

Called by serving.py for every request. The control plane's reuse model reads the counts as differences over
a window: F(a) = re-touches with age <= a / touches. Exact for every age below the top edge: blocks are
remembered whether or not a tier still holds them, for at least that long; after it a touch counts as a
first one. Memory holds the blocks touched within the last two spans.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

BINS_PER_OCTAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseHistogram:
    """Counters since the start; bin i counts re-touches with upper_edges_s[i-1] <= age < upper_edges_s[i].

    `touches` is N, `prompt_blocks` the blocks of all prompts (equal here, where every prompt block is
    touched once).
    """

    touches: int
    prompt_blocks: int
    upper_edges_s: tuple[float, ...]
    counts: tuple[int, ...]


def upper_edges(max_age_s: float) -> tuple[float, ...]:
    """List the upper bin edges: 1 s, then 8 per octave until one is >= `max_age_s`."""
    if not max_age_s >= 1:
        raise ValueError(f"max_age_s: {max_age_s} is not at least 1")
    octave_bins = ceil(BINS_PER_OCTAVE * log2(max_age_s) - 1e-9)
    return tuple(2.0 ** (i / BINS_PER_OCTAVE) for i in range(octave_bins + 1))


class ReuseAges:
    """Count the ages at which blocks are touched again; times never go back."""

    __slots__ = ("_counts", "_edges", "_older", "_recent", "_started_s", "touches")

    def __init__(self, max_age_s: float = 3600.0) -> None:
        """Start empty; raises ValueError for a largest age below 1 s."""
        self._edges = upper_edges(max_age_s)
        self._counts = [0] * (len(self._edges) + 1)
        self._recent: dict[int, float] = {}
        self._older: dict[int, float] = {}
        self._started_s = 0.0
        self.touches = 0

    @property
    def remembered_blocks(self) -> int:
        """Bound on the distinct blocks in memory."""
        return len(self._recent) + len(self._older)

    def touch(self, blocks: Sequence[int], now_s: float) -> None:
        """Count the blocks of one request.

        Neighbours in a prefix mostly share their last touch, so equal ones are binned as one run.
        """
        if now_s - self._started_s >= self._edges[-1]:
            self._rotate(now_s)
        recent = self._recent.get
        older = self._older.get
        run = 0
        run_last_s: float | None = None
        for block, recent_s in zip(blocks, map(recent, blocks), strict=True):
            last_s = older(block) if recent_s is None else recent_s
            if last_s == run_last_s:
                run += 1
            else:
                if run_last_s is not None:
                    self._count(now_s - run_last_s, run)
                run_last_s = last_s
                run = 1
        if run_last_s is not None:
            self._count(now_s - run_last_s, run)
        self._recent.update(dict.fromkeys(blocks, now_s))
        self.touches += len(blocks)

    def snapshot(self) -> ReuseHistogram:
        """Give the counters as they stand; ages above the top edge are left out."""
        return ReuseHistogram(
            touches=self.touches,
            prompt_blocks=self.touches,
            upper_edges_s=self._edges,
            counts=tuple(self._counts[:-1]),
        )

    def _count(self, age_s: float, blocks: int) -> None:
        """Add `blocks` re-touches of one age."""
        self._counts[bisect_right(self._edges, age_s)] += blocks

    def _rotate(self, now_s: float) -> None:
        """Start a new generation and forget the one before the last."""
        gap_s = now_s - self._started_s
        self._older = self._recent if gap_s < 2 * self._edges[-1] else {}
        self._recent = {}
        self._started_s = now_s
