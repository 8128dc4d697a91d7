"""Hit rate, objective and Deltas, and when each is missing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.effect import Prices, hit_rate, objective, pair_delta, pair_difference
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

WINDOW = WindowCounts(
    seconds=120.0,
    requests=600.0,
    prompt_tokens=1000.0,
    hit_tokens=700.0,
    eviction_passes=4.0,
    bytes_down=3.0 * 2**30,
)
LOST = Missing(reason=MissingReason.RESTARTED, message="restarted")
STALE = Missing(reason=MissingReason.STALE, message="stale")


def test_the_objective_charges_memory_passes_and_bytes_in_points() -> None:
    prices = Prices(memory=0.05, eviction_pass=1.0, bytes_down=2.0)
    # 57 GiB x .05 + 2 passes a minute x 1 + 1.5 GiB a minute x 2 = 7.85 points
    assert objective(WINDOW, gib_configured=57.0, prices=prices) == pytest.approx(0.7 - 0.0785)


def test_without_prices_the_objective_is_the_hit_rate_and_needs_no_other_counter() -> None:
    window = WindowCounts(seconds=120.0, requests=600.0, prompt_tokens=1000.0, hit_tokens=700.0)
    assert objective(window, gib_configured=57.0, prices=Prices()) == pytest.approx(0.7)


def test_a_priced_counter_that_is_not_reported_makes_the_objective_missing() -> None:
    window = WindowCounts(seconds=120.0, requests=600.0, prompt_tokens=1000.0, hit_tokens=700.0)
    for prices in (Prices(eviction_pass=1.0), Prices(bytes_down=1.0)):
        found = objective(window, gib_configured=57.0, prices=prices)
        assert isinstance(found, Missing)
        assert found.reason is MissingReason.NOT_AVAILABLE


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (WindowCounts(seconds=120.0), MissingReason.NOT_AVAILABLE),
        (WindowCounts(seconds=120.0, prompt_tokens=0.0, hit_tokens=0.0), MissingReason.NO_TRAFFIC),
        (
            WindowCounts(seconds=120.0, requests=0.0, prompt_tokens=5.0, hit_tokens=0.0),
            MissingReason.NO_TRAFFIC,
        ),
        (WindowCounts(seconds=120.0, prompt_tokens=5.0, hit_tokens=6.0), MissingReason.INCONSISTENT),
    ],
)
def test_case_01_an_epoch_without_usable_traffic_is_missing(
    window: WindowCounts, reason: MissingReason
) -> None:
    for found in (hit_rate(window), objective(window, gib_configured=1.0, prices=Prices())):
        assert isinstance(found, Missing)
        assert found.reason is reason


def test_a_window_of_no_length_has_no_rates() -> None:
    window = WindowCounts(seconds=0.0, prompt_tokens=5.0, hit_tokens=1.0)
    assert isinstance(objective(window, gib_configured=1.0, prices=Prices()), Missing)


def test_an_objective_that_overflows_is_missing_and_never_infinite() -> None:
    found = objective(WINDOW, gib_configured=1e308, prices=Prices(memory=1e10))
    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NAN


def test_a_delta_is_the_mean_over_both_epochs() -> None:
    assert pair_delta((0.6, 0.5), (0.4, 0.5)) == pytest.approx(0.0)
    assert pair_delta((0.6, 0.5), (0.6, 0.5)) == pytest.approx(0.1)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_a_pairs_own_difference_does_not_see_the_arms_effect(
    a: float, b: float, effect: float, drift: float
) -> None:
    # Agent a runs the candidate in epoch 1, agent b in epoch 2; drift moves both agents in epoch 2.
    own = pair_difference((a + effect, b), (a + drift, b + drift + effect))
    delta = pair_delta((a + effect, b), (b + drift + effect, a + drift))
    assert own == pytest.approx(a - b, abs=1e-9)
    assert delta == pytest.approx(effect, abs=1e-9)


def test_one_missing_value_makes_the_delta_missing_with_a_reason_blind_to_the_arm() -> None:
    assert pair_delta((LOST, 0.5), (0.4, 0.5)) == LOST
    assert pair_delta((LOST, STALE), (0.4, 0.5)) == pair_delta((STALE, LOST), (0.5, 0.4))


def test_a_delta_of_nan_is_missing() -> None:
    found = pair_delta((math.nan, 0.5), (0.4, 0.5))
    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NAN
