"""The sign e-process: check values, laws, and adversarial input."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvtune_tuner.compare import (
    EProcess,
    declared,
    s0_from_run_in,
)
from tests.tuner.eprocess_runs import declared_by, log_e_paths

RUNS = 40_000
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
numbers = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
deltas = st.lists(st.floats(min_value=-1.0, max_value=1.0), max_size=40)


def fed(xs: list[float], s0: float = 1.0) -> EProcess:
    test = EProcess.start(s0)
    for x in xs:
        test = test.add(x)
    return test


def normal(mean: float) -> Draw:
    return lambda rng, shape: rng.normal(mean, 1.0, shape)


def student_t2(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.standard_t(2, shape)


# What: (draw, s0, {pairs: P(declared by), evaluated after every pair}, {the same, after every third pair}).
CHECK_VALUES: dict[str, tuple[Draw, float, dict[int, float], dict[int, float]]] = {
    "null normal": (
        normal(0.0),
        1.0,
        {8: 0.002, 16: 0.012, 24: 0.017, 72: 0.027},
        {9: 0.002, 18: 0.010, 24: 0.013, 72: 0.021},
    ),
    "null student t2": (student_t2, 1.0, {8: 0.002, 16: 0.012, 24: 0.018, 72: 0.028}, {}),
    "null normal, s0 ten times too small": (
        normal(0.0),
        0.1,
        {8: 0.018, 16: 0.025, 24: 0.027, 72: 0.032},
        {},
    ),
    "worse by half an sd": (normal(-0.5), 1.0, {72: 0.0001}, {}),
    "effect half an sd": (
        normal(0.5),
        1.0,
        {8: 0.043, 16: 0.267, 24: 0.449, 72: 0.939},
        {9: 0.060, 18: 0.283, 24: 0.413, 72: 0.931},
    ),
    "effect one sd": (
        normal(1.0),
        1.0,
        {8: 0.292, 16: 0.852, 24: 0.976, 72: 1.0},
        {9: 0.381, 18: 0.891, 24: 0.972, 72: 1.0},
    ),
    "effect two sd": (normal(2.0), 1.0, {8: 0.942, 16: 1.0}, {9: 0.976, 18: 1.0}),
    "effect one sd, s0 three times too large": (normal(1.0), 3.0, {16: 0.742}, {}),
}


def tolerance(expected: float) -> float:
    """Return four standard errors of a share over RUNS and over the 100,000 runs of the check values."""
    variance = max(expected * (1.0 - expected), 1e-4)
    return 4.0 * math.sqrt(variance * (1.0 / RUNS + 1.0 / 100_000)) + 0.0005


@pytest.mark.parametrize("name", CHECK_VALUES)
def test_shares_declared_match_the_check_values(name: str) -> None:
    draw, s0, single, thirds = CHECK_VALUES[name]
    x = draw(np.random.default_rng(4), (RUNS, max([*single, *thirds])))
    for block, expected in ((1, single), (3, thirds)):
        if not expected:
            continue
        first = declared_by(x, s0=s0, block=block)
        for pairs, share in expected.items():
            assert (first <= pairs).mean() == pytest.approx(share, abs=tolerance(share)), (block, pairs)


@pytest.mark.parametrize(("effect", "pairs"), [(1.0, 7), (2.0, 6), (5.0, 5)])
def test_a_noise_free_effect_declares_at_the_stated_pair(effect: float, pairs: int) -> None:
    assert not declared(fed([effect] * (pairs - 1)), 0.05)
    assert declared(fed([effect] * pairs), 0.05)


def test_small_gains_with_rare_large_losses_are_declared_although_their_mean_is_zero() -> None:
    rng = np.random.default_rng(5)
    x = np.where(rng.random((10_000, 72)) < 0.1, -2.7, 0.3) + rng.normal(0.0, 0.1, (10_000, 72))
    assert 0.2 < (declared_by(x, s0=0.9) <= 72).mean() < 0.45


def test_harm_with_no_margin_finds_a_candidate_one_sd_worse() -> None:
    delta = np.random.default_rng(6).normal(-1.0, 1.0, (10_000, 24))
    assert (declared_by(-delta, block=3) <= 24).mean() == pytest.approx(0.972, abs=0.01)
    assert (declared_by(-delta - 1.0, block=3) <= 24).mean() < 0.03


@given(st.lists(numbers, min_size=1, max_size=60), st.floats(min_value=0.01, max_value=10.0))
def test_the_scalar_class_equals_the_vectorised_one(xs: list[float], s0: float) -> None:
    with np.errstate(divide="ignore"):
        paths = log_e_paths(np.array([xs]), s0)[0]
    test = EProcess.start(s0)
    for x, expected in zip(xs, paths, strict=True):
        test = test.add(x)
        if expected > -600.0:
            assert test.log_e == pytest.approx(expected, abs=1e-6, rel=1e-6)
        else:
            assert test.log_e < -500.0


@given(st.lists(numbers, max_size=5))
def test_nothing_is_declared_before_five_pairs_at_alpha_5_percent(xs: list[float]) -> None:
    assert not declared(fed(xs[:4]), 0.05)


@given(deltas, deltas)
def test_a_state_written_and_read_back_continues_the_same(before: list[float], after: list[float]) -> None:
    state = json.loads(json.dumps(dataclasses.asdict(fed(before, 0.02))))
    read = EProcess(**{**state, "log_products": tuple(state["log_products"])})
    straight = fed(before, 0.02)
    assert read == straight
    for x in after:
        read, straight = read.add(x), straight.add(x)
    assert read == straight


@given(st.lists(st.floats(min_value=-1e100, max_value=1e100), max_size=60))
def test_every_figure_of_a_state_stays_finite(xs: list[float]) -> None:
    test = fed(xs, 0.0).end_block()
    figures = [
        *test.log_products,
        test.m,
        test.q,
        test.sum_x,
        test.e_value,
        test.p_value,
        test.mean,
        test.scale,
    ]
    assert all(math.isfinite(figure) for figure in figures)


def test_e_is_finite_after_ten_thousand_wins_and_after_ten_thousand_losses() -> None:
    assert math.isfinite(fed([1.0] * 10_000).e_value)
    assert fed([-1.0] * 10_000).e_value < 1e-3


@given(deltas)
def test_the_mean_of_an_e_value_under_random_signs_is_one(sizes: list[float]) -> None:
    sizes = sizes[:8]
    total = 0.0
    for signs in range(2 ** len(sizes)):
        total += fed([x if signs >> j & 1 else -x for j, x in enumerate(sizes)], 0.3).e_value
    # s_j depends on the past only and each factor averages to one over the coin of its own pair.
    assert total / 2 ** len(sizes) == pytest.approx(1.0)


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf, 1e101])
def test_an_x_that_is_no_usable_number_is_refused(x: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        EProcess.start(1.0).add(x)


@pytest.mark.parametrize("s0", [math.nan, math.inf, -0.1])
def test_an_s0_that_is_no_usable_number_is_refused(s0: float) -> None:
    with pytest.raises(ValueError, match="s0"):
        EProcess.start(s0)


def test_an_s0_of_zero_becomes_the_floor() -> None:
    assert EProcess.start(0.0).s0 == 0.001
    assert EProcess.start(0.002, floor=0.005).s0 == 0.005


def test_a_floor_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="floor"):
        EProcess.start(1.0, floor=0.0)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_an_alpha_outside_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        declared(EProcess.start(1.0), alpha)


def test_a_declaration_needs_a_positive_mean_and_a_positive_recent_mean() -> None:
    test = fed([1.0] * 10)
    assert declared(test, 0.05)
    assert declared(test, 0.05, recent_mean=0.1)
    assert not declared(test, 0.05, recent_mean=0.0)
    assert not declared(test, 0.05, recent_mean=-0.1)
    below_zero = fed([*[0.3] * 30, -30.0])
    assert below_zero.mean < 0.0
    assert not declared(below_zero, 0.05)


def test_the_p_value_remembers_the_best_look_and_never_exceeds_one() -> None:
    test = fed([1.0] * 8).end_block()
    best = test.p_value
    assert best == pytest.approx(1.0 / test.e_value)
    for _ in range(8):
        test = test.add(-1.0)
    assert test.end_block().p_value == best
    assert fed([-1.0] * 5).end_block().p_value == 1.0


def test_s0_of_a_run_in_is_the_root_mean_square() -> None:
    assert s0_from_run_in([0.3, -0.4]) == pytest.approx(math.sqrt(0.125))
    with pytest.raises(ValueError, match="fewer than 1"):
        s0_from_run_in([])


def test_the_sd_of_a_test_takes_the_mean_out() -> None:
    assert EProcess.start(1.0).sd is None
    assert fed([1.0, 3.0]).sd == pytest.approx(math.sqrt(2.0))
