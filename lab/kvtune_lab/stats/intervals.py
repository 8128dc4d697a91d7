"""Distribution of the time from one touch of a block to its next: quantiles and the best of four laws.

Fits are by maximum likelihood on intervals above 0: exponential, lognormal, Weibull, gamma. The distance is
that of Kolmogorov and Smirnov, between the law and the intervals it was fitted to. An interval of 0 (two
requests in the same tick of the trace's clock) counts as reuse, but has no place in a law of waiting times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

import numpy as np

from kvtune_lab.readers.loaded import Reals

FIT_SAMPLES = 20_000
"""So many evenly spaced order statistics stand for a larger sample: each KS distance moves by 1/20,000."""

LEAST_SAMPLES = 20
"""Fewer intervals than this are not fitted."""


class Law(StrEnum):
    """Distributions that are fitted."""

    EXPONENTIAL = "exponential"
    LOGNORMAL = "lognormal"
    WEIBULL = "weibull"
    GAMMA = "gamma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One law; its shape is 1 for the exponential, the deviation of ln t for the lognormal."""

    law: Law
    shape: float
    scale_seconds: float
    ks_distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Intervals above 0 of one class; None where there is none."""

    count: int
    """In the sample."""

    mean_seconds: float | None
    median_seconds: float | None
    p90_seconds: float | None
    fits: tuple[Fit, ...]
    """The best one first; empty for too few or constant intervals."""


def describe(seconds: Reals) -> Intervals:
    """Describe a sample of intervals; those of 0 are left out."""
    ordered = np.sort(seconds[seconds > 0])
    if len(ordered) == 0:
        return Intervals(count=0, mean_seconds=None, median_seconds=None, p90_seconds=None, fits=())
    return Intervals(
        count=len(ordered),
        mean_seconds=float(ordered.mean()),
        median_seconds=float(np.quantile(ordered, 0.5)),
        p90_seconds=float(np.quantile(ordered, 0.9)),
        fits=fit_laws(ordered),
    )


def fit_laws(ordered: Reals) -> tuple[Fit, ...]:
    """Fit every law to sorted intervals above 0; the one with the least distance comes first."""
    if len(ordered) > FIT_SAMPLES:
        ordered = ordered[np.linspace(0, len(ordered) - 1, FIT_SAMPLES).astype(np.int64)]
    if len(ordered) < LEAST_SAMPLES or ordered[0] == ordered[-1]:
        return ()
    fits = [_fitted(law, *parameters(ordered), ordered) for law, parameters in _ESTIMATES.items()]
    return tuple(sorted(fits, key=lambda fit: fit.ks_distance))


def cumulative(fit: Fit, seconds: Reals) -> Reals:
    """The share of intervals that the law puts at or below each of these times."""
    from scipy import special  # type: ignore[import-untyped]  # it has no types

    ratio = seconds / fit.scale_seconds
    found: Reals
    match fit.law:
        case Law.EXPONENTIAL:
            found = -np.expm1(-ratio)
        case Law.LOGNORMAL:
            found = special.ndtr(np.log(ratio) / fit.shape)
        case Law.WEIBULL:
            found = -np.expm1(-(ratio**fit.shape))
        case Law.GAMMA:
            found = special.gammainc(fit.shape, ratio)
        case _:
            assert_never(fit.law)
    return found


def _fitted(law: Law, shape: float, scale: float, ordered: Reals) -> Fit:
    fit = Fit(law=law, shape=shape, scale_seconds=scale, ks_distance=1.0)
    share = cumulative(fit, ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(float(np.max(steps[1:] - share)), float(np.max(share - steps[:-1])))
    return replace(fit, ks_distance=distance)


def _exponential(seconds: Reals) -> tuple[float, float]:
    return 1.0, float(seconds.mean())


def _lognormal(seconds: Reals) -> tuple[float, float]:
    logs = np.log(seconds)
    return float(logs.std()), float(np.exp(logs.mean()))


def _weibull(seconds: Reals) -> tuple[float, float]:
    """The shape k solves sum(x^k ln x) / sum(x^k) - 1/k = mean(ln x); the scale follows."""
    logs = np.log(seconds / seconds[-1])  # at most 0, so no power overflows

    def excess(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(powers @ logs / powers.sum() - 1 / shape - logs.mean())

    shape = _root(excess)
    scale = float(np.exp(shape * logs).mean() ** (1 / shape) * seconds[-1])
    return shape, scale


def _gamma(seconds: Reals) -> tuple[float, float]:
    """The shape k solves ln k - digamma(k) = ln(mean x) - mean(ln x); the scale is mean / k."""
    from scipy.special import digamma  # type: ignore[import-untyped]  # it has no types

    mean = float(seconds.mean())
    gap = float(np.log(mean) - np.log(seconds).mean())
    shape = _root(lambda k: float(digamma(k) - np.log(k)) + gap)
    return shape, mean / shape


def _root(excess: Callable[[float], float]) -> float:
    """Where a rising function is 0, between shapes that no real sample leaves."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]  # it has no types

    low, high = 1e-3, 1e4
    if excess(low) > 0:
        return low
    return high if excess(high) < 0 else float(brentq(excess, low, high))


_ESTIMATES: Mapping[Law, Callable[[Reals], tuple[float, float]]] = MappingProxyType(
    {
        Law.EXPONENTIAL: _exponential,
        Law.LOGNORMAL: _lognormal,
        Law.WEIBULL: _weibull,
        Law.GAMMA: _gamma,
    }
)
