"""Power before the start: it agrees with the tests that will be run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_tuner.power import PowerDesign, pairs_for_power, power

EIGHTEEN = PowerDesign(pairs=18, pairs_per_block=3)


@pytest.mark.parametrize(
    ("guardrails", "expected"), [((), 0.888), (((1.0, 1.0),), 0.79), (((3.0, 1.0),), 0.88)]
)
def test_power_at_an_effect_of_one_sd_by_18_deltas(
    guardrails: tuple[tuple[float, float], ...], expected: float
) -> None:
    design = PowerDesign(pairs=18, pairs_per_block=3, guardrails=guardrails)
    assert power(1.0, 1.0, design) == pytest.approx(expected, abs=0.025)


def test_power_without_an_effect_is_the_false_promotion_rate() -> None:
    assert power(0.0, 1.0, PowerDesign(pairs=24, pairs_per_block=3)) < 0.02


def test_power_depends_on_the_effect_in_sds_only() -> None:
    assert power(0.02, 0.02, EIGHTEEN) == power(1.0, 1.0, EIGHTEEN)
    assert power(0.025, 0.02, PowerDesign(pairs=18, pairs_per_block=3, dmin=0.005)) == power(
        1.0, 1.0, EIGHTEEN
    )


def test_the_same_question_has_the_same_answer() -> None:
    assert power(0.7, 1.0, EIGHTEEN) == power(0.7, 1.0, EIGHTEEN)
    assert power(0.70001, 1.0, EIGHTEEN) == power(0.7, 1.0, EIGHTEEN)


def test_fewer_pairs_than_the_minimum_have_no_power() -> None:
    assert power(5.0, 1.0, PowerDesign(pairs=6, pairs_per_block=3)) == 0.0
    assert power(5.0, 1.0, PowerDesign(pairs=2, pairs_per_block=3)) == 0.0


def test_a_huge_effect_has_power_one_and_a_huge_loss_none() -> None:
    assert power(1e6, 1.0, EIGHTEEN) == 1.0
    assert power(-1e6, 1.0, EIGHTEEN) == 0.0


def test_the_pairs_for_half_the_power_are_where_the_power_crosses() -> None:
    pairs = pairs_for_power(0.5, 1.0, EIGHTEEN)
    assert pairs is not None
    assert pairs % 3 == 0
    assert power(0.5, 1.0, PowerDesign(pairs=pairs, pairs_per_block=3)) >= 0.5
    assert power(0.5, 1.0, PowerDesign(pairs=pairs - 3, pairs_per_block=3)) < 0.5


def test_thousands_of_deltas_cost_no_more_than_hundreds_and_find_what_hundreds_do_not() -> None:
    many = PowerDesign(pairs=10_000, pairs_per_block=8)
    assert power(0.2, 1.0, many) == 1.0, "every run has promoted long before: the rest is not simulated"
    assert power(0.05, 1.0, many) > power(0.05, 1.0, PowerDesign(pairs=240, pairs_per_block=8)) + 0.1
    assert power(0.0, 1.0, many) < 0.1


def test_no_number_of_pairs_finds_an_effect_of_nothing() -> None:
    assert pairs_for_power(0.0, 1.0, EIGHTEEN) is None


@settings(max_examples=25, deadline=None)
@given(st.floats(min_value=0.0, max_value=3.0), st.floats(min_value=0.0, max_value=1.0))
def test_power_grows_with_the_effect(effect: float, more: float) -> None:
    # The seed is fixed, so every run sees the same noise; rounding and rare late losses leave a small slack.
    assert power(effect + more, 1.0, EIGHTEEN) >= power(effect, 1.0, EIGHTEEN) - 0.01


@pytest.mark.parametrize(
    ("effect", "sd", "design"),
    [
        (1.0, 0.0, EIGHTEEN),
        (1.0, -1.0, EIGHTEEN),
        (1.0, math.nan, EIGHTEEN),
        (math.inf, 1.0, EIGHTEEN),
        (1.0, 1.0, PowerDesign(pairs=0, pairs_per_block=3)),
        (1.0, 1.0, PowerDesign(pairs=9, pairs_per_block=0)),
        (1.0, 1.0, PowerDesign(pairs=9, pairs_per_block=3, guardrails=((0.02, 0.0),))),
        (1.0, 1.0, PowerDesign(pairs=9, pairs_per_block=3, alpha=0.0)),
    ],
)
def test_a_question_without_sense_is_refused(effect: float, sd: float, design: PowerDesign) -> None:
    with pytest.raises(ValueError, match=r"power|alpha"):
        power(effect, sd, design)
