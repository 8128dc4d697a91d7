"""How many distinct blocks a trace touches, in all and within windows of time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_lab.readers.loaded import Loaded, Reals


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of a trace: of some requests (by number, in order) some of the blocks. None: all."""

    requests: NDArray[np.int64] | None = None
    blocks: NDArray[np.bool_] | None = None
    """Of each distinct block whether it counts."""


WHOLE = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSet:
    """Distinct blocks, and GiB where the bytes of a token are known; a block takes its full size.

    A last window that is not full counts for the peak alone, unless it is the only one.
    """

    distinct_blocks: int
    window_seconds: float
    windows: int
    mean_blocks: float
    p95_blocks: float
    peak_blocks: float
    bytes_per_block: int | None

    @property
    def distinct_gib(self) -> float | None:
        """Of all distinct blocks."""
        return self._gib(self.distinct_blocks)

    @property
    def peak_gib(self) -> float | None:
        """Of the window with the most."""
        return self._gib(self.peak_blocks)

    def _gib(self, blocks: float) -> float | None:
        return None if self.bytes_per_block is None else blocks * self.bytes_per_block / 2**30


def blocks_per_window(loaded: Loaded, window_seconds: float, *, part: Part = WHOLE) -> Reals:
    """Distinct blocks touched in each window from second 0 to the end of the trace."""
    return _counted(loaded, window_seconds, part)[0]


def working_set_of(
    loaded: Loaded, window_seconds: float, bytes_per_block: int | None, *, part: Part = WHOLE
) -> WorkingSet:
    """Describe the working sets; raises ValueError for a window that is not above 0."""
    if not window_seconds > 0:
        raise ValueError(f"window_seconds: {window_seconds} is not greater than 0")
    counts, distinct = _counted(loaded, window_seconds, part)
    full = counts[: max(int(float(loaded.requests.times[-1]) // window_seconds), 1)]
    return WorkingSet(
        distinct_blocks=distinct,
        window_seconds=window_seconds,
        windows=len(counts),
        mean_blocks=float(full.mean()),
        p95_blocks=float(np.quantile(full, 0.95)),
        peak_blocks=float(counts.max()),
        bytes_per_block=bytes_per_block,
    )


def _counted(loaded: Loaded, window_seconds: float, part: Part) -> tuple[Reals, int]:
    """Distinct blocks in each window, and in all."""
    starts, blocks = np.asarray(loaded.requests.starts), np.asarray(loaded.requests.blocks)
    windows = (np.asarray(loaded.requests.times) // window_seconds).astype(np.int32)
    counts = np.zeros(int(windows[-1]) + 1)
    latest = np.full(loaded.distinct_blocks, -1, np.int32)
    chosen = range(len(windows)) if part.requests is None else part.requests.tolist()
    for r in chosen:
        mine, window = blocks[starts[r] : starts[r + 1]], windows[r]
        if part.blocks is not None:
            mine = mine[part.blocks[mine]]
        counts[window] += np.count_nonzero(latest[mine] != window)
        latest[mine] = window
    return counts, int(np.count_nonzero(latest >= 0))
