"""How long blocks are kept for nothing: block-seconds after the last use, under a TTL or an LRU of a size.

A residency is useful from its beginning to its last use, wasted from there until the block leaves, or the
trace ends. An LRU of a size is taken as the TTL under which as many blocks are resident on average (Che,
Tung and Wang, IEEE JSAC 20(7), 2002: an LRU keeps nearly every block for one characteristic time).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests
from kvtune_lab.readers.loaded import Reals, Whole

_REFERENCES_AT_ONCE = 1 << 20
_BINS_PER_OCTAVE = 64
_LEAST_SECONDS = 1e-3
_OCTAVES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """Block-seconds by class, under a TTL in seconds."""

    ttl_seconds: float
    useful: Reals
    wasted: Reals

    @property
    def wasted_share(self) -> float | None:
        """Of all block-seconds; None where nothing is kept for any time."""
        whole = float(self.useful.sum() + self.wasted.sum())
        return float(self.wasted.sum()) / whole if whole else None


class _Piece(NamedTuple):
    """Some references: where they are, seconds until their block's next use (inf: none) and the end."""

    at: slice
    gaps: Reals
    until_end: Reals


def under_ttl(
    requests: Requests, following: Whole, ttl_seconds: float, classes: NDArray[np.uint8], count: int
) -> Residency:
    """Let a block leave when idle for `ttl_seconds`; `classes` has each reference's class, below `count`.

    `following` is the next request of each reference, as `next_requests` gives it. Raises ValueError for a
    TTL that is not above 0.
    """
    if not ttl_seconds > 0:
        raise ValueError(f"ttl_seconds: {ttl_seconds} is not greater than 0")
    useful, wasted = np.zeros(count), np.zeros(count)
    for at, gaps, until_end in _pieces(requests, following):
        reused = gaps <= ttl_seconds
        idle = np.minimum(ttl_seconds, until_end)
        useful += np.bincount(classes[at], np.where(reused, gaps, 0), count)
        wasted += np.bincount(classes[at], np.where(reused, 0, idle), count)
    return Residency(ttl_seconds=ttl_seconds, useful=useful, wasted=wasted)


def characteristic_seconds(requests: Requests, following: Whole, capacity_blocks: int) -> float:
    """The TTL under which `capacity_blocks` are resident on average; the trace's length where fewer ever are.

    Times are counted in bins of 1.1 %. Raises ValueError for less than one block.
    """
    if capacity_blocks < 1:
        raise ValueError(f"capacity: {capacity_blocks} is less than 1 block")
    counts, seconds = np.zeros(_BINS_PER_OCTAVE * _OCTAVES), np.zeros(_BINS_PER_OCTAVE * _OCTAVES)
    for _, gaps, until_end in _pieces(requests, following):
        held = np.minimum(gaps, until_end)
        octaves = np.log2(np.maximum(held, _LEAST_SECONDS) / _LEAST_SECONDS)
        bins = (octaves * _BINS_PER_OCTAVE).astype(np.int64)
        counts += np.bincount(bins, minlength=len(counts))
        seconds += np.bincount(bins, held, len(seconds))
    duration = float(requests.times[-1])
    ttls = _LEAST_SECONDS * 2 ** (np.arange(1, len(counts) + 1) / _BINS_PER_OCTAVE)
    resident = np.cumsum(seconds) + ttls * (counts.sum() - np.cumsum(counts))
    reached = int(np.searchsorted(resident, capacity_blocks * duration))
    return min(float(ttls[min(reached, len(ttls) - 1)]), max(duration, _LEAST_SECONDS))


def _pieces(requests: Requests, following: Whole) -> Iterator[_Piece]:
    """All references, some at a time."""
    times = np.asarray(requests.times)
    ends = np.append(times, np.inf)
    touched = np.repeat(np.arange(len(times), dtype=np.int32), np.diff(np.asarray(requests.starts)))
    for start in range(0, len(following), _REFERENCES_AT_ONCE):
        at = slice(start, start + _REFERENCES_AT_ONCE)
        since = times[touched[at]]
        yield _Piece(at, ends[following[at]] - since, times[-1] - since)
