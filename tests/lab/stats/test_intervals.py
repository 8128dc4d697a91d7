"""Fits of intervals: each law is found again in what it made; too little is not fitted."""

import numpy as np
import pytest

from kvtune_lab.stats.intervals import FIT_SAMPLES, Law, cumulative, describe

RANDOM = {
    Law.EXPONENTIAL: (lambda r: r.exponential(40, 30_000), 1.0, 40),
    Law.LOGNORMAL: (lambda r: r.lognormal(np.log(90), 1.3, 30_000), 1.3, 90),
    Law.WEIBULL: (lambda r: 25 * r.weibull(0.6, 30_000), 0.6, 25),
    Law.GAMMA: (lambda r: r.gamma(3.5, 12, 30_000), 3.5, 12),
}


@pytest.mark.parametrize("law", RANDOM)
def test_a_law_is_found_again_with_its_parameters(law: Law) -> None:
    draw, shape, scale = RANDOM[law]
    fits = describe(draw(np.random.default_rng(3))).fits
    fit = next(fit for fit in fits if fit.law is law)
    assert fit.shape == pytest.approx(shape, rel=0.03)
    assert fit.scale_seconds == pytest.approx(scale, rel=0.03)
    assert fit.ks_distance < 0.01
    assert len(fits) == 4
    assert [fit.ks_distance for fit in fits] == sorted(fit.ks_distance for fit in fits)
    if law is not Law.EXPONENTIAL:  # the others contain it
        assert fits[0].law is law


@pytest.mark.parametrize("law", RANDOM)
def test_distances_and_shares_are_those_of_scipy(law: Law) -> None:
    from scipy import stats

    seconds = RANDOM[law][0](np.random.default_rng(5))[:5000]
    assert len(seconds) < FIT_SAMPLES
    for fit in describe(seconds).fits:
        known = {
            Law.EXPONENTIAL: stats.expon(scale=fit.scale_seconds),
            Law.LOGNORMAL: stats.lognorm(fit.shape, scale=fit.scale_seconds),
            Law.WEIBULL: stats.weibull_min(fit.shape, scale=fit.scale_seconds),
            Law.GAMMA: stats.gamma(fit.shape, scale=fit.scale_seconds),
        }[fit.law]
        assert fit.ks_distance == pytest.approx(stats.kstest(seconds, known.cdf).statistic, abs=1e-9)
        assert cumulative(fit, seconds) == pytest.approx(known.cdf(seconds), abs=1e-12)


def test_intervals_of_zero_have_no_place_in_a_law() -> None:
    found = describe(np.array([0.0] * 50 + [2.0, 4.0]))
    assert (found.count, found.mean_seconds, found.median_seconds) == (2, 3, 3)
    assert found.fits == ()


@pytest.mark.parametrize("seconds", [[], [0.0, 0.0]])
def test_no_interval_is_not_zero_seconds(seconds: list[float]) -> None:
    found = describe(np.array(seconds))
    assert (found.count, found.mean_seconds, found.p90_seconds, found.fits) == (0, None, None, ())


def test_intervals_that_are_all_the_same_are_not_fitted() -> None:
    assert describe(np.full(100, 7.0)).fits == ()


def test_two_values_are_fitted_without_a_fault() -> None:
    assert len(describe(np.array([1.0] * 50 + [1.0 + 1e-9] * 50)).fits) == 4
    assert len(describe(np.array([1e-3] * 50 + [1e6] * 50)).fits) == 4
