"""Sum up touches by class and by the wait until the next one; bounds, hints and hazards are sums of these.

The best that can be done with what a class says (the fluid bound of cache.md, "How far is knowable?"): hold
the blocks of each class for a time of its own, chosen in hindsight. A hold time of D hits the waits of at
most D and takes room for the smaller of wait and D; both are cumulative sums over bins of the wait.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests
from kvtune_lab.explain.touches import CLASSES, SHAPE, classified
from kvtune_lab.stats.reuse import requests_of

GRID: Final = 160
"""Hold times to choose from."""

CHUNK: Final = 500_000
"""References that are worked on at once, to bound memory."""

HOLD_SAMPLES: Final = 2_000_000
"""Hold times are quantiles of about so many waits."""

Floats64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Arrays of (*SHAPE, 2, GRID): axes of the classes; 0 never touched again, 1 touched again; hold times.

    Sums are of the last half of the requests.
    """

    holds_s: Floats64
    """GRID growing hold times from 0 on."""

    tokens: Floats64
    """Tokens that are hit where blocks are held so long."""

    block_seconds: Floats64
    """Room that this takes."""

    span_s: float
    """Length of the last half."""

    asked_tokens: float
    """Tokens of the last half."""


def tallied(requests: Requests) -> Tally:
    """Sum up a trace; raises ValueError where its last half takes no time, so that nothing can be held."""
    count = len(requests.starts) - 1
    half_s, end_s = float(requests.times[count // 2]), float(requests.times[count - 1])
    if not half_s < end_s:
        raise ValueError(f"trace: its last half begins and ends at {end_s:g} s")
    classes, waits = classified(requests)
    tokens, times = np.asarray(requests.tokens), np.asarray(requests.times)
    holds = _holds(waits)
    shape = (2 * CLASSES, GRID + 1)
    hits, counts, seconds, early_counts, early_seconds = (np.zeros(shape) for _ in range(5))
    for i in range(0, len(waits), CHUNK):
        part = slice(i, i + CHUNK)
        at = times[requests_of(requests, np.arange(i, min(i + CHUNK, len(waits))))]
        again = np.isfinite(waits[part])
        row = 2 * classes[part].astype(np.int64) + again
        wait = np.minimum(waits[part], end_s - at)
        _add(hits, holds, row, wait, np.where(again & (at + wait >= half_s), tokens[part], 0.0))
        _add(counts, holds, row, wait, None)
        _add(seconds, holds, row, wait, wait)
        early = np.clip(half_s - at, 0.0, wait)
        _add(early_counts, holds, row, early, None)
        _add(early_seconds, holds, row, early, early)
    whole = (*SHAPE, 2, GRID)
    return Tally(
        holds_s=holds,
        tokens=np.cumsum(hits, axis=1)[:, :GRID].reshape(whole),
        block_seconds=(_held(counts, seconds, holds) - _held(early_counts, early_seconds, holds)).reshape(
            whole
        ),
        span_s=end_s - half_s,
        asked_tokens=float(tokens[requests.starts[count // 2] :].sum(dtype=np.int64)),
    )


def _holds(waits: Floats64) -> Floats64:
    """Choose hold times: none, and quantiles of the waits that end; fewer distinct ones are filled up."""
    longest = float(np.max(waits, where=np.isfinite(waits), initial=0.0))
    some = waits[:: max(1, len(waits) // HOLD_SAMPLES)]
    some = some[np.isfinite(some) & (some > 0)]
    if not len(some):
        return np.arange(GRID, dtype=np.float64)
    quantiles = np.unique(np.quantile(some, np.linspace(0, 1, GRID - 2)))
    rest = longest * (1 + 1e-9 * np.arange(1, GRID - len(quantiles)))
    return np.concatenate(([0.0], quantiles, rest))


def _add(
    into: Floats64, holds: Floats64, row: NDArray[np.int64], wait: Floats64, weight: Floats64 | None
) -> None:
    """Add weights (1 each where there are none) to the cells of their class and the least hold that hits."""
    cells = row * (GRID + 1) + np.searchsorted(holds, wait, side="left")
    into += np.bincount(cells, weight, into.size).reshape(into.shape)


def _held(counts: Floats64, seconds: Floats64, holds: Floats64) -> Floats64:
    """Sum min(wait, hold) for every hold time."""
    ended = np.cumsum(counts, axis=1)
    longer = ended[:, -1:] - ended[:, :GRID]
    held: Floats64 = np.cumsum(seconds, axis=1)[:, :GRID] + holds * longer
    return held
