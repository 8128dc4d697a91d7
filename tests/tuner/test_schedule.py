"""Washout, window and duration by the rules, within bounds and on the grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.schedule import (
    ArmFill,
    Bounds,
    Timing,
    estimated_duration_s,
    measuring_window_s,
    shortest_duration_s,
    washout_s,
)

WASHOUT = Bounds(min_s=20.0, max_s=1800.0)
WINDOW = Bounds(min_s=120.0, max_s=600.0)


def fill(ttl_s: float, capacity: float, rate: float | None, recency: bool = True) -> ArmFill:
    return ArmFill(ttl_s=ttl_s, capacity_bytes=capacity, insert_bytes_per_s=rate, recency=recency)


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ([fill(30.0, 1e9, 1e6), fill(60.0, 1e9, 1e6)], 60.0),  # the longer TTL, both below the fill time
        ([fill(600.0, 57.0, 1.0), fill(600.0, 228.0, 1.0)], 230.0),  # the longer fill time, rounded up
        ([fill(600.0, 57.0, 1.0), fill(30.0, 228.0, 1.0)], 60.0),  # min within an arm, max over arms
        ([fill(1.0, 57.0, 1.0)] * 2, 20.0),  # the queue's drain
        ([fill(3600.0, 1e12, 1.0)] * 2, 1800.0),  # the bound
        ([fill(300.0, 57.0, 0.0)] * 2, 300.0),  # nothing is inserted: the TTL alone
        ([fill(300.0, 57.0, None)] * 2, 300.0),
        ([fill(600.0, 57.0, 1.0, recency=False)] * 2, 175.0),  # three fill times for other policies
        ([fill(100.0, 57.0, 1.0, recency=False)] * 2, 100.0),  # still capped by the TTL
        ([], 20.0),
    ],
)
def test_the_washout_is_the_longer_arms_memory(arms: list[ArmFill], expected: float) -> None:
    assert washout_s(arms, WASHOUT) == expected


@pytest.mark.parametrize(
    ("rate", "effect_over_sd", "expected"),
    [
        (15.0, None, 120.0),
        (15.0, 2.0, 120.0),
        (15.0, 0.9, 300.0),
        (15.0, -0.9, 300.0),
        (3.0, None, 185.0),  # 1.1 x 500 / 3 = 183.3
        (0.1, None, 600.0),
        (0.0, None, 600.0),
    ],
)
def test_the_window_is_long_enough_for_the_requests(
    rate: float, effect_over_sd: float | None, expected: float
) -> None:
    assert measuring_window_s(rate, WINDOW, effect_over_sd=effect_over_sd) == expected


def test_fewer_requests_need_less_time() -> None:
    assert measuring_window_s(2.0, WINDOW, min_requests=300.0) == 165.0


def test_bounds_that_leave_no_room_win_over_the_rules() -> None:
    assert measuring_window_s(15.0, Bounds(min_s=60.0, max_s=60.0)) == 60.0
    assert measuring_window_s(15.0, Bounds(min_s=63.0, max_s=63.0)) == 65.0
    assert washout_s([fill(30.0, 1e9, 1.0)], Bounds(min_s=45.0, max_s=100.0)) == 45.0


@pytest.mark.parametrize("bounds", [Bounds(min_s=0.0, max_s=5.0), Bounds(min_s=10.0, max_s=5.0)])
def test_bounds_that_are_no_range_are_refused(bounds: Bounds) -> None:
    with pytest.raises(ValueError, match="bounds"):
        washout_s([], bounds)


@given(st.floats(min_value=0.0, max_value=1e4), st.integers(min_value=1, max_value=200), st.integers(0, 200))
def test_every_window_is_on_the_grid_and_within_a_grid_step_of_its_bounds(
    rate: float, low: int, room: int
) -> None:
    bounds = Bounds(min_s=5.0 * low, max_s=5.0 * (low + room))
    window = measuring_window_s(rate, bounds)
    assert window % 5.0 == 0.0
    assert bounds.min_s <= window <= bounds.max_s


TIMING = Timing(washout_s=60.0, window_s=120.0, pairs=24, pairs_per_block=3)


def test_the_estimate_is_run_in_blocks_and_watch() -> None:
    assert estimated_duration_s(TIMING) == 2 * 8 * 180.0 + 60.0 + 240.0
    with_run_in = Timing(
        washout_s=60.0, window_s=120.0, pairs=24, pairs_per_block=5, run_in_blocks=2, preparation_s=10.0
    )
    assert estimated_duration_s(with_run_in) == 10.0 + 4 * 180.0 + 2 * 5 * 180.0 + 300.0


def test_the_shortest_experiment_has_the_fewest_pairs_and_the_watch() -> None:
    assert shortest_duration_s(TIMING, 8) == 2 * 3 * 180.0 + 60.0 + 2 * 120.0
