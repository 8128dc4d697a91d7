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

GRID: Final = 160
"""Hold times to choose from."""

CHUNK: Final = 2_000_000
"""References that are worked on at once, to bound memory."""

Floats64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Arrays of (*SHAPE, 2, GRID): axes of the classes; 0 never touched again, 1 touched again; hold times.

    `seconds` and `tokens` are of the last half of the requests, the rest of the whole trace.
    """

    holds_s: Floats64
    """GRID growing hold times from 0 on."""

    tokens: Floats64
    """Tokens that are hit where blocks are held so long."""

    block_seconds: Floats64
    """Room that this takes."""

    returns: Floats64
    """Touches of the whole trace that are followed by another within the hold time."""

    exposure_s: Floats64
    """Time that blocks of the whole trace have waited, each at most the hold time."""

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
    at, classes, waits = classified(requests)
    tokens = np.asarray(requests.tokens, np.float64)
    holds = _holds(waits)
    shape = (2 * CLASSES, GRID + 1)
    hits, returns, counts, seconds, early_counts, early_seconds = (np.zeros(shape) for _ in range(6))
    for i in range(0, len(waits), CHUNK):
        part = slice(i, i + CHUNK)
        again = np.isfinite(waits[part])
        row = 2 * classes[part].astype(np.int64) + again
        wait = np.minimum(waits[part], end_s - at[part])
        _add(hits, holds, row, wait, np.where(again & (at[part] + wait >= half_s), tokens[part], 0.0))
        _add(returns, holds, row, wait, again.astype(np.float64))
        _add(counts, holds, row, wait, None)
        _add(seconds, holds, row, wait, wait)
        early = np.clip(half_s - at[part], 0.0, wait)
        _add(early_counts, holds, row, early, None)
        _add(early_seconds, holds, row, early, early)
    exposure = _held(counts, seconds, holds)
    whole = (*SHAPE, 2, GRID)
    return Tally(
        holds_s=holds,
        tokens=np.cumsum(hits, axis=1)[:, :GRID].reshape(whole),
        block_seconds=(exposure - _held(early_counts, early_seconds, holds)).reshape(whole),
        returns=np.cumsum(returns, axis=1)[:, :GRID].reshape(whole),
        exposure_s=exposure.reshape(whole),
        span_s=end_s - half_s,
        asked_tokens=float(tokens[requests.starts[count // 2] :].sum()),
    )


def _holds(waits: Floats64) -> Floats64:
    """Choose hold times: none, and quantiles of the waits that end; fewer distinct ones are filled up."""
    finite = waits[np.isfinite(waits) & (waits > 0)]
    if not len(finite):
        return np.arange(GRID, dtype=np.float64)
    quantiles = np.unique(np.quantile(finite[:: max(1, len(finite) // CHUNK)], np.linspace(0, 1, GRID - 2)))
    rest = finite.max() * (1 + 1e-9 * np.arange(1, GRID - len(quantiles)))
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
