"""The most that a policy can hit which knows only the class of a touch, in hindsight; and what hints add.

Of all hold times per class those are taken that hit most tokens in the room of the cache on average over the
last half: a Lagrangian over the convex hulls (bound2 of the design's studies has the same semantics). It is
fluid, that is, the room may be exceeded for moments, so it is a bound and no policy.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvtune_lab.explain.tally import Tally

SCHEMES: Final[dict[str, tuple[int, ...]]] = {
    "no class": (),
    "touches before": (0,),
    "all classes": (0, 1, 2, 3, 4),
}
"""What is known of a touch: axes of the classes."""


def bound(tally: Tally, capacities: Sequence[int], axes: Sequence[int]) -> list[float]:
    """Hit rates of tokens in the last half, of what is known by these axes alone."""
    return _best(tally, capacities, *(_known(part, axes).sum(axis=-2) for part in _parts(tally)))


def hinted(tally: Tally, capacities: Sequence[int], axes: Sequence[int], accuracy: float) -> list[float]:
    """The same where a client also says whether the block will be touched again, and is right so often.

    The model: each touch of every class has a hint of its own that is right with probability `accuracy`, so
    the classes "said to return" and "said to be over" are mixtures; at 0.5 it says nothing. Raises ValueError
    for an accuracy outside [0.5, 1].
    """
    if not 0.5 <= accuracy <= 1:
        raise ValueError(f"hint accuracy: {accuracy} is not within [0.5, 1]")
    mixture = np.array([[accuracy, 1 - accuracy], [1 - accuracy, accuracy]])
    mixed = (np.einsum("hr,...rg->...hg", mixture, _known(part, axes)) for part in _parts(tally))
    return _best(tally, capacities, *mixed)


def _parts(tally: Tally) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return tally.tokens, tally.block_seconds


def _known(part: NDArray[np.float64], axes: Sequence[int]) -> NDArray[np.float64]:
    """Sum over the axes that are not known."""
    summed: NDArray[np.float64] = part.sum(axis=tuple(axis for axis in range(5) if axis not in axes))
    return summed


def _best(
    tally: Tally, capacities: Sequence[int], tokens: NDArray[np.float64], block_seconds: NDArray[np.float64]
) -> list[float]:
    grid = tokens.shape[-1]
    hits, room = tokens.reshape(-1, grid), block_seconds.reshape(-1, grid) / tally.span_s
    return [_fill(hits, room, capacity) / tally.asked_tokens for capacity in capacities]


def _fill(hits: NDArray[np.float64], room: NDArray[np.float64], capacity: float) -> float:
    """The hits of the best choice of one column of each row whose room sums to at most `capacity`.

    Bisects the price of room; what is left between the choices on both sides of the price is taken in part.
    """
    rows = np.arange(len(hits))
    low, high = 0.0, 1e12
    for _ in range(200):
        price = np.sqrt(max(low, 1e-12) * high)
        chosen = np.argmax(hits - price * room, axis=1)
        if room[rows, chosen].sum() > capacity:
            low = price
        else:
            high = price
    less, more = (np.argmax(hits - price * room, axis=1) for price in (high, low))
    hit, used = float(hits[rows, less].sum()), float(room[rows, less].sum())
    hit_more, used_more = float(hits[rows, more].sum()), float(room[rows, more].sum())
    if used_more <= capacity:
        return hit_more
    return hit + (hit_more - hit) * (capacity - used) / (used_more - used) if used_more > used else hit
