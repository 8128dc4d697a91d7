"""Counter samples to windows: resets, restarts, and everything a scrape may get wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.sli import COUNTERS, CounterSample, Missing, MissingReason, WindowCounts, increase, pooled

LE = (0.1, 0.25, math.inf)
EARLY = CounterSample(
    at_s=100.0,
    started_at_s=1.0,
    requests=10.0,
    prompt_tokens=1000.0,
    hit_tokens=400.0,
    eviction_passes=2.0,
    bytes_down=5.0,
    errors=1.0,
    new_session_roots=3.0,
    ttft_le=LE,
    ttft_counts=(4.0, 8.0, 10.0),
)
LATE = CounterSample(
    at_s=220.0,
    started_at_s=1.0,
    requests=30.0,
    prompt_tokens=4000.0,
    hit_tokens=2400.0,
    eviction_passes=2.0,
    bytes_down=15.0,
    errors=1.0,
    new_session_roots=8.0,
    ttft_le=LE,
    ttft_counts=(10.0, 25.0, 30.0),
)
counts = st.one_of(st.none(), st.floats(min_value=0.0, max_value=1e12))


def reason(found: object) -> MissingReason:
    assert isinstance(found, Missing), found
    return found.reason


def test_a_window_holds_the_differences_of_its_samples() -> None:
    assert increase(EARLY, LATE) == WindowCounts(
        seconds=120.0,
        requests=20.0,
        prompt_tokens=3000.0,
        hit_tokens=2000.0,
        eviction_passes=0.0,
        bytes_down=10.0,
        errors=0.0,
        new_session_roots=5.0,
        ttft_le=LE,
        ttft_counts=(6.0, 17.0, 20.0),
    )


def test_a_counter_that_one_sample_lacks_stays_missing_and_is_not_zero() -> None:
    window = increase(replace(EARLY, requests=None), replace(LATE, errors=None, ttft_le=(), ttft_counts=()))
    assert isinstance(window, WindowCounts)
    assert window.requests is None
    assert window.errors is None
    assert window.ttft_le == window.ttft_counts == ()
    assert window.prompt_tokens == 3000.0


def test_case_13_a_restart_inside_the_window_is_missing_although_counters_grew() -> None:
    assert reason(increase(EARLY, replace(LATE, started_at_s=150.0))) is MissingReason.RESTARTED


def test_case_13_a_reset_counts_from_zero_where_no_start_time_is_known() -> None:
    fallen = replace(LATE, started_at_s=None, requests=7.0)
    window = increase(EARLY, fallen)
    assert isinstance(window, WindowCounts)
    assert window.reset
    assert (window.requests, window.prompt_tokens, window.ttft_counts) == (7.0, 4000.0, LATE.ttft_counts)


def test_a_bucket_that_falls_is_a_reset_too() -> None:
    window = increase(
        replace(EARLY, started_at_s=None), replace(LATE, started_at_s=None, ttft_counts=(1.0, 2.0, 3.0))
    )
    assert isinstance(window, WindowCounts)
    assert window.reset


def test_a_counter_that_falls_without_a_restart_is_not_trusted() -> None:
    found = increase(EARLY, replace(LATE, hit_tokens=1.0))
    assert reason(found) is MissingReason.COUNTER_DECREASED
    assert isinstance(found, Missing)
    assert "hit_tokens" in found.message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_that_is_no_count_makes_the_window_missing(name: str, value: float) -> None:
    change: dict[str, Any] = {name: value}
    assert reason(increase(EARLY, replace(LATE, **change))) is MissingReason.NAN
    assert reason(increase(replace(EARLY, **change), LATE)) is MissingReason.NAN


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"at_s": math.nan}, MissingReason.NAN),
        ({"at_s": 100.0}, MissingReason.STALE),
        ({"at_s": 50.0}, MissingReason.STALE),
        ({"ttft_counts": (10.0, math.nan, 30.0)}, MissingReason.NAN),
        ({"ttft_counts": (10.0, 9.0, 30.0)}, MissingReason.INCONSISTENT),
        ({"ttft_counts": (10.0, 30.0)}, MissingReason.INCONSISTENT),
        ({"ttft_counts": ()}, MissingReason.INCONSISTENT),
        ({"ttft_le": (0.1, 0.5, math.inf)}, MissingReason.INCONSISTENT),
        ({"ttft_le": (0.25, 0.1, math.inf)}, MissingReason.INCONSISTENT),
        ({"ttft_le": (0.1, 0.25, 0.5)}, MissingReason.INCONSISTENT),
        ({"ttft_counts": (20.0, 25.0, 26.0)}, MissingReason.INCONSISTENT),
    ],
)
def test_a_sample_that_bounds_no_window_is_missing(change: dict[str, Any], expected: MissingReason) -> None:
    assert reason(increase(EARLY, replace(LATE, **change))) is expected


def test_samples_without_any_counter_give_a_window_without_any() -> None:
    window = increase(CounterSample(at_s=0.0), CounterSample(at_s=5.0))
    assert window == WindowCounts(seconds=5.0)


def test_a_pool_is_the_sum_of_its_agents() -> None:
    window = increase(EARLY, LATE)
    assert isinstance(window, WindowCounts)
    total = pooled([window, window])
    assert isinstance(total, WindowCounts)
    assert (total.seconds, total.requests, total.ttft_counts) == (120.0, 40.0, (12.0, 34.0, 40.0))


def test_a_pool_lacks_what_one_of_its_agents_lacks() -> None:
    window = increase(EARLY, LATE)
    assert isinstance(window, WindowCounts)
    other = replace(window, errors=None, ttft_le=(1.0, math.inf), ttft_counts=(1.0, 2.0))
    total = pooled([window, other])
    assert isinstance(total, WindowCounts)
    assert total.errors is None
    assert total.ttft_le == ()
    assert total.requests == 40.0


def test_a_pool_of_nobody_is_missing() -> None:
    assert reason(pooled([])) is MissingReason.NO_DATA


@given(counts, counts, st.booleans())
def test_no_increase_is_ever_negative_or_nan(before: float | None, after: float | None, known: bool) -> None:
    start = 1.0 if known else None
    window = increase(
        CounterSample(at_s=0.0, started_at_s=start, requests=before),
        CounterSample(at_s=5.0, started_at_s=start, requests=after),
    )
    if isinstance(window, WindowCounts) and window.requests is not None:
        assert math.isfinite(window.requests)
        assert window.requests >= 0.0


@given(st.lists(st.floats(min_value=0.0, max_value=1e9), min_size=3, max_size=3).map(sorted))
def test_the_increases_over_adjacent_windows_add_up(values: list[float]) -> None:
    samples = [CounterSample(at_s=5.0 * j, requests=value) for j, value in enumerate(values)]
    windows = [
        increase(samples[0], samples[1]),
        increase(samples[1], samples[2]),
        increase(samples[0], samples[2]),
    ]
    a, b, whole = (window.requests for window in windows if isinstance(window, WindowCounts))
    assert a is not None
    assert b is not None
    assert whole == pytest.approx(a + b, abs=1e-3)
