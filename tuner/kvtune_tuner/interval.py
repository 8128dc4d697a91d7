"""Show an interval for the effect that is valid at every look.

For people only: verdicts come from verdict.py. While all Deltas are at hand the e-process is inverted; beyond
the ledger's ring the asymptotic confidence sequence needs n, mean and sd alone. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kvtune_tuner.compare import LAMBDAS, S0_FLOOR

LEAST_FOR_ASYMPTOTIC = 8
TIGHTEST_AT = 24
"""The asymptotic interval is tuned to be tightest at this many Deltas, the default maxPairs."""

_WEIGHTS = np.array(LAMBDAS)
_LOG_2 = math.log(2.0)
_STEPS = 60


class IntervalMethod(StrEnum):
    """Say where an interval comes from."""

    INVERTED = "Inverted"
    ASYMPTOTIC = "Asymptotic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bound the mean Delta; None is unbounded on that side."""

    low: float | None
    high: float | None
    method: IntervalMethod


def inverted_interval(
    deltas: Sequence[float], *, s0: float, alpha: float, floor: float = S0_FLOOR
) -> Interval:
    """Return the theta for which neither one-sided E, of Delta - theta and of theta - Delta, is at 2/alpha.

    E falls in theta, since s_j does not depend on it, so each end is found by bisection. Below log2(2/alpha)
    Deltas nothing is excluded. Raises ValueError for an alpha outside (0, 1), a bad s0, or a Delta that is
    not finite."""
    _check_alpha(alpha)
    if not (math.isfinite(s0) and s0 >= 0.0):
        raise ValueError(f"s0: {s0} is not a number of at least 0")
    x = np.asarray(deltas, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("deltas: one is not a finite number")
    log_limit = math.log(2.0 / alpha)
    if len(x) * _LOG_2 <= log_limit:
        return Interval(low=None, high=None, method=IntervalMethod.INVERTED)
    scales = _scales(x, max(s0, floor))
    low = _lowest_kept(x, scales, log_limit)
    high = _lowest_kept(-x, scales, log_limit)
    return Interval(low=low, high=None if high is None else -high, method=IntervalMethod.INVERTED)


def _scales(x: NDArray[np.float64], s0: float) -> NDArray[np.float64]:
    """Return s_j for every x from those before it."""
    scales = np.empty(len(x))
    mean, squares = 0.0, 0.0
    for j, value in enumerate(x.tolist()):
        scales[j] = math.sqrt((2.0 * s0**2 + squares) / (2.0 + max(j - 1, 0)))
        deviation = value - mean
        mean += deviation / (j + 1)
        squares += deviation * (value - mean)
    return scales


def _log_e(x: NDArray[np.float64], scales: NDArray[np.float64]) -> float:
    exponents = np.multiply.outer(_WEIGHTS, -2.0 * x / scales)
    log_products = len(x) * _LOG_2 - np.logaddexp(0.0, exponents).sum(axis=1)
    return float(np.logaddexp.reduce(log_products)) - math.log(len(_WEIGHTS))


def _lowest_kept(x: NDArray[np.float64], scales: NDArray[np.float64], log_limit: float) -> float | None:
    """Return the theta at which log E of x - theta falls below the limit; None where no theta is excluded."""
    reach = float(scales.max()) + float(x.max() - x.min())
    high = float(x.max())
    low = float(x.min()) - reach
    for _ in range(_STEPS):
        if _log_e(x - low, scales) >= log_limit:
            break
        reach *= 2.0
        low -= reach
    else:
        return None
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if _log_e(x - middle, scales) >= log_limit:
            low = middle
        else:
            high = middle
    return low


def asymptotic_interval(
    *, n: int, mean: float, sd: float, alpha: float, tightest_at: int = TIGHTEST_AT
) -> Interval | None:
    """Return mean +- sd sqrt(2 (n r^2 + 1) / (n^2 r^2) ln(sqrt(n r^2 + 1) / alpha)), None below 8 Deltas.

    The asymptotic confidence sequence of arXiv 2103.06476, with r chosen to be tightest at `tightest_at`.
    Raises ValueError for an alpha outside (0, 1) or figures that are not finite."""
    _check_alpha(alpha)
    if not (math.isfinite(mean) and math.isfinite(sd) and sd >= 0.0):
        raise ValueError(f"interval: mean {mean} and sd {sd} must be finite, sd at least 0")
    if n < LEAST_FOR_ASYMPTOTIC:
        return None
    r2 = (-2.0 * math.log(alpha) + math.log(-2.0 * math.log(alpha) + 1.0)) / tightest_at
    grown = n * r2 + 1.0
    half = sd * math.sqrt(2.0 * grown / (n**2 * r2) * math.log(math.sqrt(grown) / alpha))
    return Interval(low=mean - half, high=mean + half, method=IntervalMethod.ASYMPTOTIC)


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha: {alpha} is not between 0 and 1")
