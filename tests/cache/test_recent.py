"""LRU by ids: what it remembers of blocks that have left, and the way to numbers and back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.counts import PRESSURE, TTL, WANTED
from kvtune_cache.recent import FEW, Recent
from kvtune_cache.rules import Rules
from kvtune_cache.tiers import CacheSettings, TieredCache
from tests.cache.strategies import requests

SETTINGS = CacheSettings(ttl_seconds=10.0, eviction_ratio=0.1, host_blocks=4)
DETOURS = [replace(SETTINGS, policy="FIFO"), replace(SETTINGS, store_threshold=2)]


def test_what_has_left_is_remembered_in_bounded_room() -> None:
    recent, rules = Recent(remembers=True), Rules(0, 50)
    for number in range(3_000):
        recent.touch(rules, [10 * number, 10 * number + 1], 0, float(number))
        assert len(recent.left()) <= 2 * (50 + FEW)
    assert len(recent.left()) >= FEW
    assert set(range(10 * 2_800, 10 * 2_900, 10)) <= recent.left().keys(), "the last ones that have left"


def test_a_tier_that_remembers_nothing_only_counts_what_leaves() -> None:
    recent, rules = Recent(remembers=False), Rules(0, 1)
    for second, block in enumerate([1, 2, 1]):
        recent.touch(rules, [block], 0, float(second))
    assert recent.left() == {}
    assert recent.counts[WANTED + PRESSURE] == 0


@pytest.mark.parametrize("detour", DETOURS)
def test_why_a_block_has_left_outlives_a_detour_over_other_settings(detour: CacheSettings) -> None:
    cache = TieredCache(1, SETTINGS)
    cache.process([1, 2], 0.0)
    cache.process([3, 4, 5, 6], 1.0)
    cache.reconfigure(detour, 2.0)
    cache.reconfigure(SETTINGS, 2.0)
    cache.process([5, 6], 20.0)
    assert cache.host.counts[WANTED + TTL] == 2
    assert cache.host.counts[WANTED + PRESSURE] == 0
    assert {block for block, _ in cache.ids(cache.host)} == {5, 6}


@given(st.lists(st.tuples(requests, st.sampled_from(DETOURS)), max_size=20))
def test_law_a_detour_over_other_settings_changes_nothing_in_any_tier(
    steps: list[tuple[tuple[float, list[int]], CacheSettings]],
) -> None:
    straight, detouring, now = TieredCache(3, SETTINGS), TieredCache(3, SETTINGS), 0.0
    for (wait, blocks), detour in steps:
        now += wait
        assert detouring.process(blocks, now) == straight.process(blocks, now)
        detouring.reconfigure(detour, now)
        detouring.reconfigure(SETTINGS, now)
        for level, other in zip(detouring.levels, straight.levels, strict=True):
            assert detouring.ids(level) == straight.ids(other)
            assert list(level.counts) == list(other.counts)
