"""Users, working sets, spikes and wasted residency of small traces."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_lab.readers.loaded import ClientRates, Format
from kvtune_lab.stats.arrivals import counts_per_bin, spikes_of, spikes_of_rates
from kvtune_lab.stats.residency import characteristic_seconds, under_ttl
from kvtune_lab.stats.reuse import next_requests
from kvtune_lab.stats.skew import skew_of
from kvtune_lab.stats.working_set import Part, blocks_per_window, working_set_of
from tests.lab.stats.traces import loaded

TRACE = loaded((0, [1, 2]), (10, [1, 3]), (100, [1, 2]), (130, [4]))


def test_few_users_have_most_of_the_reuse() -> None:
    users = np.array([0, 1, 2, 0, -1, 3], np.int32)
    found = skew_of(users, np.array([50.0, 5, 0, 40, 900, 5]), inferred=False)
    assert (found.users, found.reusing_users) == (4, 3)
    assert found.users_share_of_reuse == 0.25


def test_only_users_with_a_request_are_counted() -> None:
    found = skew_of(np.array([9, 2], np.int32), np.array([1.0, 1.0]), inferred=False)
    assert (found.users, found.reusing_users) == (2, 2)


def test_no_reuse_has_no_share_of_users() -> None:
    assert skew_of(np.zeros(2, np.int32), np.zeros(2), inferred=True).users_share_of_reuse is None
    assert skew_of(np.full(2, -1, np.int32), np.ones(2), inferred=True).users == 0


def test_working_sets_count_a_block_once_a_window() -> None:
    counts = blocks_per_window(TRACE, 60)
    assert counts.tolist() == [3, 2, 1]
    found = working_set_of(TRACE, 60, 2**20)
    assert (found.peak_blocks, found.mean_blocks, found.distinct_blocks) == (3, 2.5, 4)
    assert found.distinct_gib == pytest.approx(4 / 1024)
    assert working_set_of(TRACE, 60, None).peak_gib is None


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="window_seconds: 0 is not greater than 0"):
        working_set_of(TRACE, 0, None)


def test_spikes_are_told_against_the_mean() -> None:
    found = spikes_of(np.array([0.0, 1, 2, 3, 70, 130, 190, 245]))
    assert found is not None and (found.bins, found.mean_per_bin, found.peak_per_bin) == (4, 1.75, 4)
    assert found.peak_at_seconds == 0
    assert found.peak_over_mean == pytest.approx(4 / 1.75)
    assert found.index_of_dispersion == pytest.approx(1.6875 / 1.75)


def test_a_part_of_a_trace_is_held_against_the_time_of_all_of_it() -> None:
    found = spikes_of(np.array([70.0, 75.0]), until_seconds=245)
    assert found is not None and (found.bins, found.mean_per_bin, found.peak_at_seconds) == (4, 0.5, 60)
    assert spikes_of(np.array([243.0]), until_seconds=245) is None, "in the minute that is not full"


def test_the_working_set_of_a_part_counts_its_blocks_alone() -> None:
    first_and_third = working_set_of(TRACE, 60, None, part=Part(requests=np.array([0, 2])))
    assert (first_and_third.peak_blocks, first_and_third.distinct_blocks) == (2, 2)
    one_block = np.arange(TRACE.distinct_blocks) == 0
    assert blocks_per_window(TRACE, 60, part=Part(blocks=one_block)).tolist() == [1, 1, 0]


@pytest.mark.parametrize(("times", "counts"), [([0.0], [1]), ([0.0, 59.0], [2]), ([0.0, 60.0], [1])])
def test_a_last_minute_that_is_not_full_is_left_out_unless_it_is_all(
    times: list[float], counts: list[int]
) -> None:
    assert counts_per_bin(np.array(times)).tolist() == counts


def test_a_single_arrival_has_no_gaps() -> None:
    found = spikes_of(np.array([0.0]))
    assert found is not None and (found.index_of_dispersion, found.gap_variation) == (None, None)


def test_rates_of_clients_are_summed_step_by_step() -> None:
    rates = ClientRates(
        times=np.array([0.0, 0, 600]),
        rates=np.array([1.0, 2, 0.5]),
        variations=np.ones(3),
        clients=np.array([0, 1, 0], np.int32),
        step_seconds=600,
        format=Format.SERVEGEN,
    )
    assert spikes_of_rates(rates).peak_over_mean == pytest.approx(1800 / 1050)


def test_what_is_kept_after_the_last_use_is_wasted() -> None:
    following = next_requests(TRACE.requests, TRACE.distinct_blocks)
    found = under_ttl(TRACE.requests, following, 50, np.zeros(7, np.uint8), 1)
    assert found.useful.tolist() == [10]
    assert found.wasted.tolist() == [50 + 50 + 50 + 30 + 30 + 0]
    assert found.wasted_share == pytest.approx(210 / 220)


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 5)), min_size=2, max_size=40), st.floats(0.1, 99))
def test_useful_and_wasted_seconds_are_what_a_cache_with_that_ttl_holds(
    touches: list[tuple[float, int]], ttl: float
) -> None:
    touches = sorted(touches)
    trace = loaded(*((at, [block]) for at, block in touches))
    following = next_requests(trace.requests, trace.distinct_blocks)
    found = under_ttl(trace.requests, following, ttl, np.zeros(len(touches), np.uint8), 1)
    end = touches[-1][0]
    held = 0.0
    for block in {block for _, block in touches}:
        times = [at for at, each in touches if each == block] + [end]
        held += sum(min(ttl, later - at) for at, later in pairwise(times))
    assert float(found.useful.sum() + found.wasted.sum()) == pytest.approx(held, abs=1e-6)


@pytest.mark.parametrize("capacity", [1, 3, 10])
def test_an_lru_of_a_size_keeps_blocks_for_its_characteristic_time(capacity: int) -> None:
    blocks = np.random.default_rng(2).integers(0, 20, 4000).tolist()
    trace = loaded(*((float(i), [block]) for i, block in enumerate(blocks)))
    following = next_requests(trace.requests, trace.distinct_blocks)
    ttl = characteristic_seconds(trace.requests, following, capacity)
    kept = under_ttl(trace.requests, following, ttl, np.zeros(4000, np.uint8), 1)
    resident = float(kept.useful.sum() + kept.wasted.sum()) / 3999
    assert resident == pytest.approx(capacity, rel=0.02)


def test_an_lru_above_all_blocks_keeps_them_to_the_end() -> None:
    following = next_requests(TRACE.requests, TRACE.distinct_blocks)
    assert characteristic_seconds(TRACE.requests, following, 99) == 130


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_ttl_or_size_of_nothing_is_refused(seconds: int) -> None:
    following = next_requests(TRACE.requests, TRACE.distinct_blocks)
    with pytest.raises(ValueError, match=r"ttl_seconds: .* is not greater than 0"):
        under_ttl(TRACE.requests, following, seconds, np.zeros(7, np.uint8), 1)
    with pytest.raises(ValueError, match=r"capacity: .* is less than 1 block"):
        characteristic_seconds(TRACE.requests, following, seconds)
