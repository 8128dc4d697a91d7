"""Shown intervals: they agree with the tests and cover at every look."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.compare import EProcess
from kvtune_tuner.interval import IntervalMethod, asymptotic_interval, inverted_interval

sizes = st.floats(min_value=-1.0, max_value=1.0)


def e_value(xs: list[float], s0: float) -> float:
    test = EProcess.start(s0)
    for x in xs:
        test = test.add(x)
    return test.e_value


@given(st.lists(sizes, min_size=6, max_size=30), st.floats(min_value=0.01, max_value=1.0))
def test_inside_neither_one_sided_test_declares_and_outside_one_does(deltas: list[float], s0: float) -> None:
    found = inverted_interval(deltas, s0=s0, alpha=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.high
    step = 1e-6 * (1.0 + abs(found.low) + abs(found.high))
    assert e_value([x - (found.low - step) for x in deltas], s0) >= 40.0 * (1 - 1e-6)
    assert e_value([x - (found.low + step) for x in deltas], s0) < 40.0 * (1 + 1e-6)
    assert e_value([(found.high + step) - x for x in deltas], s0) >= 40.0 * (1 - 1e-6)
    assert e_value([(found.high - step) - x for x in deltas], s0) < 40.0 * (1 + 1e-6)


@given(st.lists(sizes, min_size=6, max_size=30))
def test_the_interval_of_mirrored_deltas_is_mirrored(deltas: list[float]) -> None:
    found, mirrored = (inverted_interval(xs, s0=0.1, alpha=0.05) for xs in (deltas, [-x for x in deltas]))
    assert found.low is not None
    assert found.high is not None
    assert mirrored.low == pytest.approx(-found.high, abs=1e-9)
    assert mirrored.high == pytest.approx(-found.low, abs=1e-9)


@pytest.mark.parametrize("deltas", [[], [0.1], [0.1] * 5])
def test_too_few_deltas_exclude_nothing(deltas: list[float]) -> None:
    found = inverted_interval(deltas, s0=0.1, alpha=0.05)
    assert (found.low, found.high, found.method) == (None, None, IntervalMethod.INVERTED)


def test_equal_deltas_and_an_s0_of_zero_give_a_finite_interval() -> None:
    found = inverted_interval([0.1] * 24, s0=0.0, alpha=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.1 <= found.high
    assert found.high - found.low < 0.01


def test_the_inverted_interval_covers_at_every_look() -> None:
    rng = np.random.default_rng(11)
    missed = 0
    for _ in range(200):
        deltas = rng.normal(0.3, 1.0, 24).tolist()
        found = [inverted_interval(deltas[:n], s0=1.0, alpha=0.05) for n in (6, 9, 12, 15, 18, 21, 24)]
        missed += any(one.low is None or one.high is None or not one.low <= 0.3 <= one.high for one in found)
    assert missed / 200 < 0.05


def test_the_asymptotic_interval_covers_at_every_look_from_eight() -> None:
    rng = np.random.default_rng(12)
    missed = 0
    for _ in range(1000):
        deltas = rng.normal(0.3, 1.0, 72)
        for n in range(8, 73):
            found = asymptotic_interval(
                n=n, mean=float(deltas[:n].mean()), sd=float(deltas[:n].std(ddof=1)), alpha=0.05
            )
            assert found is not None
            assert found.low is not None
            assert found.high is not None
            if not found.low <= 0.3 <= found.high:
                missed += 1
                break
    assert missed / 1000 < 0.06


def test_the_asymptotic_interval_is_the_published_formula() -> None:
    r2 = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 24
    half = 2.0 * math.sqrt(2 * (16 * r2 + 1) / (16**2 * r2) * math.log(math.sqrt(16 * r2 + 1) / 0.05))
    found = asymptotic_interval(n=16, mean=1.0, sd=2.0, alpha=0.05)
    assert found is not None
    assert found.method is IntervalMethod.ASYMPTOTIC
    assert found.low == pytest.approx(1.0 - half)
    assert found.high == pytest.approx(1.0 + half)


def test_below_eight_deltas_there_is_no_asymptotic_interval() -> None:
    assert asymptotic_interval(n=7, mean=0.0, sd=1.0, alpha=0.05) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_figures_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        inverted_interval([0.1, bad], s0=0.1, alpha=0.05)
    with pytest.raises(ValueError, match="s0"):
        inverted_interval([0.1], s0=bad, alpha=0.05)
    with pytest.raises(ValueError, match="finite"):
        asymptotic_interval(n=9, mean=bad, sd=1.0, alpha=0.05)
    with pytest.raises(ValueError, match="finite"):
        asymptotic_interval(n=9, mean=0.0, sd=bad, alpha=0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_an_alpha_outside_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        inverted_interval([0.1], s0=0.1, alpha=alpha)
    with pytest.raises(ValueError, match="alpha"):
        asymptotic_interval(n=9, mean=0.0, sd=1.0, alpha=alpha)
