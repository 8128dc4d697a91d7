"""The hazard is learned from waits ended and not ended; the index is the best of all horizons."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_cache.reuse_aware.classes import AXES, CLASSES, HINTS, put_levels, request_class, told_class
from kvtune_cache.reuse_aware.cohorts import cohort_slot
from kvtune_cache.reuse_aware.fit import factor_of, fit, hazard, spread_of
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.reuse_aware.state import AGES, BINS, CELLS, SLOTS, USED, Reuse

COUNTS = st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 1e5)), min_size=AGES, max_size=AGES)


def counted(counts: list[tuple[float, float]]) -> Reuse:
    reuse = plain_reuse(1)
    slot = cohort_slot(reuse, 0)
    for b, (events, exposure) in enumerate(counts):
        reuse.cells.events[slot * BINS + b] = events
        reuse.cells.exposure[slot * BINS + b] = exposure
    fit(reuse)
    return reuse


@settings(max_examples=30, deadline=None)
@given(COUNTS)
def test_the_index_is_the_best_ratio_of_hits_to_seconds_over_all_horizons(
    counts: list[tuple[float, float]],
) -> None:
    reuse = counted(counts)
    edges, group = reuse.classes.edges, reuse.classes.group
    weight = 30.0 * spread_of(reuse, 0)
    rates = [hazard(reuse, 0, b, weight, factor_of(reuse.classes, 0, group[b])) for b in range(AGES)]
    for b in range(AGES):
        alive, hits, seconds, best = 1.0, 0.0, 0.0, 0.0
        for j in range(b, AGES):
            ended = 1 - math.exp(-min(30.0, rates[j] * (edges[j + 1] - edges[j])))
            hits += alive * ended
            seconds += alive * ended / rates[j]
            alive *= 1 - ended
            best = max(best, hits / seconds)
        assert reuse.cells.worth[b] == pytest.approx(best, rel=1e-6)


def test_the_hazard_of_many_events_is_that_of_its_own_cell() -> None:
    reuse = counted([(1e5 if b == 3 else 0.0, 1e6) for b in range(AGES)])
    weight = 30.0 * spread_of(reuse, 0)
    assert hazard(reuse, 0, 3, weight, 1.0) == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("exposure", [1e17, 1e25])
def test_a_hazard_that_a_float_hardly_tells_from_none_still_has_a_worth(exposure: float) -> None:
    worth = counted([(0.0, exposure)] * AGES).cells.worth[:AGES]
    assert all(0.0 < each < 1e-15 for each in worth)


def test_without_any_events_younger_is_worth_more() -> None:
    reuse = plain_reuse(1)
    slot = cohort_slot(reuse, 7)
    worth = list(reuse.cells.worth[slot * BINS : slot * BINS + AGES])
    assert worth == sorted(worth, reverse=True)


def test_a_class_is_one_level_of_each_axis() -> None:
    levels = [0] * AXES
    seen = set()
    for number in range(CLASSES):
        put_levels(levels, 0, number)
        seen.add(tuple(levels))
    assert len(seen) == CLASSES
    assert max(row[HINTS] for row in seen) == 3 and max(row[5] for row in seen) == 5
    assert [max(row[axis] for row in seen) for axis in range(5)] == [2, 2, 2, 2, 1]


def test_the_levels_are_those_of_the_design() -> None:
    gaps = [request_class(gap, 0, 0.0, 0) for gap in (-1.0, 0.0, 59.9, 60.0)]
    assert gaps[1] == gaps[2] and len(set(gaps)) == 3
    assert len({request_class(-1.0, fresh, 0.0, 0) for fresh in (0, 1, 2, 7, 8, 99)}) == 3
    assert len({request_class(-1.0, 0, output, 0) for output in (-1.0, 99.0, 100.0, 349.0, 350.0)}) == 3
    assert [told_class(0, hint) for hint in (0.0, -1.0, 60.0, 61.0)] == [0, 1, 2, 3]


def test_when_slots_run_out_what_the_caller_tells_is_no_longer_looked_at() -> None:
    reuse = plain_reuse(1)
    slots = [cohort_slot(reuse, number) for number in range(CLASSES)]
    assert reuse.numbers[USED] <= SLOTS == CELLS // BINS
    assert len({cohort_slot(reuse, number) for number in range(0, CLASSES, 24)}) == CLASSES // 24
    assert slots == [cohort_slot(reuse, number) for number in range(CLASSES)]
