"""Find the knee of a curve: where another block of cache begins to bring less than it did on average.

Kneedle (Satopää et al., ICDCS workshops 2011) without its smoothing, because hit-rate curves only grow: with
both axes scaled to [0, 1] the knee is the point furthest above the diagonal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Knee:
    """The place on the curve, and how far it stands above the diagonal (0: a straight line, 1: a step)."""

    index: int
    sharpness: float


def knee(capacities: Sequence[float], rates: Sequence[float]) -> Knee | None:
    """Find the knee of a growing curve; None where it does not grow or never rises above the diagonal."""
    x, y = np.asarray(capacities, np.float64), np.asarray(rates, np.float64)
    if len(x) < 3 or x[-1] <= x[0] or y[-1] <= y[0]:
        return None
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    best = int(np.argmax(above))
    return Knee(best, float(above[best])) if above[best] > 0 else None
