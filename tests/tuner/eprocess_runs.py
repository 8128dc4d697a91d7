"""Run many e-processes at once, written apart from the scalar class so that each checks the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvtune_tuner.compare import LAMBDAS

NEVER = 10**9


def log_e_paths(x: NDArray[np.float64], s0: float) -> NDArray[np.float64]:
    """Return log E after every x, for x of shape (runs, length)."""
    runs, length = x.shape
    weights = np.array(LAMBDAS)
    log_products = np.zeros((runs, len(LAMBDAS)))
    mean, squares = np.zeros(runs), np.zeros(runs)
    paths = np.empty((runs, length))
    for j in range(length):
        scale = np.sqrt((2 * s0**2 + squares) / (2 + max(j - 1, 0)))
        log_products -= np.logaddexp(0.0, -2.0 * weights * (x[:, j] / scale)[:, None]) - np.log(2.0)
        deviation = x[:, j] - mean
        mean = mean + deviation / (j + 1)
        squares = squares + deviation * (x[:, j] - mean)
        paths[:, j] = np.log(np.exp(log_products).mean(axis=1))
    return paths


def declared_by(
    x: NDArray[np.float64], *, s0: float = 1.0, block: int = 1, alpha: float = 0.05
) -> NDArray[np.int64]:
    """Return for each run the number of x at the first block end with E >= 1/alpha and mean > 0."""
    paths = log_e_paths(x, s0)
    means = np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)
    hits = (paths >= -np.log(alpha)) & (means > 0)
    hits[:, [j for j in range(x.shape[1]) if (j + 1) % block]] = False
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, NEVER)
