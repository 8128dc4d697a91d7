"""Shares and quantiles at bucket boundaries, without interpolation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.sli import Missing, MissingReason, WindowCounts
from kvtune_tuner.ttft import Share, Standing, judge_target, quantile_bounds, share_under

LE = (0.1, 0.25, 0.5, 7.5, math.inf)
WINDOW = WindowCounts(seconds=120.0, ttft_le=LE, ttft_counts=(10.0, 60.0, 90.0, 96.0, 100.0))


def share(limit_s: float) -> Share:
    found = share_under(WINDOW, limit_s)
    assert isinstance(found, Share)
    return found


def test_at_a_boundary_the_share_is_exact() -> None:
    at = share(0.25)
    assert (at.boundary_s, at.next_boundary_s) == (0.25, 0.25)
    assert at.below == at.above == 0.6
    assert share(0.25 * (1 + 1e-12)).below == 0.6


def test_between_boundaries_the_share_is_bracketed() -> None:
    between = share(0.3)
    assert (between.boundary_s, between.next_boundary_s) == (0.25, 0.5)
    assert (between.below, between.above) == (0.6, 0.9)


def test_below_the_lowest_boundary_the_arms_cannot_be_compared() -> None:
    low = share(0.05)
    assert (low.below, low.above) == (0.0, 0.1)
    assert low.boundary_s is None


def test_above_the_top_boundary_all_requests_may_be_within_the_limit() -> None:
    high = share(10.0)
    assert (high.boundary_s, high.below, high.above) == (7.5, 0.96, 1.0)


@pytest.mark.parametrize(
    ("limit_s", "quantile", "standing", "nearest_s"),
    [
        (0.25, 0.6, Standing.MET, None),
        (0.25, 0.61, Standing.VIOLATED, None),
        (0.3, 0.55, Standing.MET, None),
        (0.3, 0.95, Standing.VIOLATED, None),
        (0.3, 0.8, Standing.RESOLUTION_INSUFFICIENT, 0.25),
        (0.45, 0.8, Standing.RESOLUTION_INSUFFICIENT, 0.5),
        (0.05, 0.05, Standing.RESOLUTION_INSUFFICIENT, 0.1),
        (10.0, 0.99, Standing.RESOLUTION_INSUFFICIENT, 7.5),
    ],
)
def test_a_target_is_met_or_violated_only_where_a_boundary_says_so(
    limit_s: float, quantile: float, standing: Standing, nearest_s: float | None
) -> None:
    report = judge_target(share(limit_s), quantile)
    assert (report.standing, report.nearest_s) == (standing, nearest_s)
    assert "asked" in report.message


def test_a_histogram_of_one_infinite_bucket_names_no_nearest_limit() -> None:
    found = share_under(WindowCounts(seconds=1.0, ttft_le=(math.inf,), ttft_counts=(5.0,)), 0.2)
    assert isinstance(found, Share)
    report = judge_target(found, 0.9)
    assert (report.standing, report.nearest_s) == (Standing.RESOLUTION_INSUFFICIENT, None)


@pytest.mark.parametrize(
    ("quantile", "text"),
    [(0.05, "0 to 0.1 s"), (0.5, "0.1 to 0.25 s"), (0.95, "0.5 to 7.5 s"), (0.99, "> 7.5 s")],
)
def test_a_quantile_is_reported_as_its_bucket(quantile: float, text: str) -> None:
    bounds = quantile_bounds(WINDOW, quantile)
    assert not isinstance(bounds, Missing)
    assert bounds.text == text


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (WindowCounts(seconds=1.0), MissingReason.NOT_AVAILABLE),
        (WindowCounts(seconds=1.0, ttft_le=LE, ttft_counts=(0.0,) * 5), MissingReason.NO_TRAFFIC),
    ],
)
def test_without_requests_or_buckets_shares_and_quantiles_are_missing(
    window: WindowCounts, reason: MissingReason
) -> None:
    for found in (share_under(window, 0.25), quantile_bounds(window, 0.9)):
        assert isinstance(found, Missing)
        assert found.reason is reason


@pytest.mark.parametrize("limit_s", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_no_time_is_refused(limit_s: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        share_under(WINDOW, limit_s)


@pytest.mark.parametrize("quantile", [0.0, 1.0, math.nan])
def test_a_quantile_outside_0_to_1_is_refused(quantile: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        quantile_bounds(WINDOW, quantile)
    with pytest.raises(ValueError, match="quantile"):
        judge_target(share(0.25), quantile)


@given(
    st.lists(st.floats(min_value=0.001, max_value=20.0), min_size=1, max_size=50),
    st.floats(min_value=0.01, max_value=20.0),
)
def test_the_true_share_lies_between_the_bounds(times: list[float], limit_s: float) -> None:
    counts = tuple(float(sum(time <= le for time in times)) for le in LE)
    found = share_under(WindowCounts(seconds=1.0, ttft_le=LE, ttft_counts=counts), limit_s)
    assert isinstance(found, Share)
    true_share = sum(time <= limit_s * (1 + 1e-9) for time in times) / len(times)
    assert found.below <= true_share + 1e-12
    assert true_share <= found.above + 1e-12
