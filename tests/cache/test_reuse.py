"""Ages at re-touch, against a dictionary that forgets nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.reuse import ReuseAges, upper_edges
from tests.cache.strategies import chain


def test_edges_are_eight_per_octave_from_one_second_to_the_largest_age() -> None:
    edges = upper_edges(3600.0)
    assert edges[0] == 1.0
    assert edges[8] == pytest.approx(2.0)
    assert len(edges) == 96
    assert edges[-2] < 3600.0 <= edges[-1]
    assert upper_edges(1024.0)[-1] == 1024.0


def test_a_largest_age_below_one_second_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_age_s: 0\.5 is not at least 1"):
        ReuseAges(0.5)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0, 70.0, 300.0]), chain()), max_size=60))
def test_counts_equal_a_dictionary_that_forgets_nothing(steps: list[tuple[float, list[int]]]) -> None:
    ages = ReuseAges(64.0)
    edges = upper_edges(64.0)
    last: dict[int, float] = {}
    expected, touches, now = [0] * len(edges), 0, 0.0
    for wait, blocks in steps:
        now += wait
        ages.touch(blocks, now)
        touches += len(blocks)
        for block in blocks:
            age = now - last.get(block, float("-inf"))
            if age < edges[-1]:
                expected[next(i for i, edge in enumerate(edges) if age < edge)] += 1
            last[block] = now
    seen = ages.snapshot()
    assert seen.counts == tuple(expected)
    assert (seen.touches, seen.prompt_blocks) == (touches, touches)
    assert sum(seen.counts) <= seen.touches
    assert ages.remembered_blocks <= 2 * len(last)


def test_memory_holds_two_spans_of_blocks_however_long_the_run() -> None:
    ages = ReuseAges(64.0)
    for second in range(2_000):
        ages.touch([3 * second, 3 * second + 1, 3 * second + 2], float(second))
        assert ages.remembered_blocks <= 3 * 2 * 64 + 3


def test_ages_do_not_depend_on_how_long_ago_the_engine_clock_started() -> None:
    early, late = ReuseAges(64.0), ReuseAges(64.0)
    for second in range(0, 300, 7):
        early.touch([second % 5], float(second))
        late.touch([second % 5], 1_760_000_000.0 + second)
    assert early.snapshot() == late.snapshot()
