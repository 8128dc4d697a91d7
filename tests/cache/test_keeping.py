"""One cache by its rules: TTL, passes, the store threshold, resizing, and what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.blocks import leave, next_request, pin, resident
from kvtune_cache.cache import Cache
from kvtune_cache.counts import LEFT, PASS_BLOCKS, PASSES, PRESSURE, REFUSED, RESIZE, TTL, WANTED, WRITTEN
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.keeping import expire, shrink
from kvtune_cache.requests import Requests, cache_for, left, serve, sums, sums_of_kind
from kvtune_cache.rules import Rules
from kvtune_cache.switching import by_last_touch, switched
from tests.cache.streams import CHAINS, POLICIES, assert_sound, chained, distinct, packed, residents

RULES = st.builds(
    Rules,
    POLICIES.map(int),
    st.integers(1, 14),
    tail_first=st.integers(0, 1),
    pins=st.integers(0, 1),
    ttl_seconds=st.sampled_from([0.5, 3.0, 12.0]),
    pass_blocks=st.sampled_from([0, 1, 3, 20]),
    store_threshold=st.sampled_from([1, 2]),
)


def served(drawn: list[tuple[int, int]], rules: Rules) -> tuple[Cache, Requests]:
    """A cache that has served requests a second apart."""
    requests = packed(chained(drawn))
    cache = cache_for(rules, distinct(requests))
    for r in range(len(requests.starts) - 1):
        serve(cache, rules, requests, r)
    return cache, requests


@given(CHAINS, RULES)
def test_law_a_cache_is_sound_and_blocks_are_conserved_by_any_rules(
    drawn: list[tuple[int, int]], rules: Rules
) -> None:
    requests = packed(chained(drawn))
    cache = cache_for(rules, distinct(requests))
    for r in range(len(requests.starts) - 1):
        serve(cache, rules, requests, r)
        assert_sound(cache.table)
        assert resident(cache.table) <= rules.capacity
        assert cache.counts[WRITTEN] == resident(cache.table) + left(cache.counts)
        order = by_last_touch(cache, rules.policy)
        assert set(order) == residents(cache.table)
        times = [cache.recency.last[x] for x in order]
        assert times == sorted(times)
        assert all(r - time <= rules.ttl_seconds for time in times)
    counts = cache.counts
    assert sum(counts[WANTED + reason] for reason in (PRESSURE, TTL, RESIZE)) <= left(counts)
    assert counts[PASS_BLOCKS] <= counts[LEFT + PRESSURE]
    assert counts[PASSES] == 0 or rules.pass_blocks > 0


@given(CHAINS, POLICIES, st.integers(1, 14), st.integers(0, 14))
def test_law_neither_ttl_nor_resize_takes_a_pinned_block(
    drawn: list[tuple[int, int]], policy: Eviction, capacity: int, pinned: int
) -> None:
    rules = Rules(int(policy), capacity, ttl_seconds=1e6)
    cache, _ = served(drawn, rules)
    next_request(cache.table)
    held = sorted(residents(cache.table))
    pin(cache.table, held, 0, min(pinned, len(held)))
    kept = set(held[:pinned])
    shrink(cache, rules._replace(capacity=max(1, capacity // 2)))
    assert kept <= residents(cache.table)
    assert len(residents(cache.table)) <= max(len(kept), capacity // 2, 1)
    expire(cache, rules, 1e9)
    assert residents(cache.table) == kept
    assert_sound(cache.table)
    next_request(cache.table)
    expire(cache, rules, 1e9)
    assert not residents(cache.table)


@given(CHAINS, POLICIES, POLICIES, st.integers(1, 14), st.data())
def test_law_a_switch_keeps_all_blocks_and_goes_on_soundly(
    drawn: list[tuple[int, int]], policy: Eviction, to: Eviction, capacity: int, data: st.DataObject
) -> None:
    rules = Rules(int(policy), capacity, ttl_seconds=1e6)
    cache, requests = served(drawn, rules)
    before = by_last_touch(cache, rules.policy)
    pinned = residents(cache.table) & {
        x for x in range(distinct(requests)) if cache.table.pinned[x] == cache.table.state[0]
    }
    cache = switched(cache, rules.policy, int(to))
    rules = rules._replace(policy=int(to))
    assert by_last_touch(cache, int(to)) == before
    assert residents(cache.table) == set(before)
    assert_sound(cache.table)
    shrink(cache, rules._replace(capacity=0))
    assert residents(cache.table) == pinned, "what was pinned before is pinned after"
    later = requests._replace(times=[1e3 + r for r in range(len(requests.times))])
    for r in sorted(data.draw(st.sets(st.integers(0, len(requests.starts) - 2), max_size=20))):
        serve(cache, rules, later, r)
        assert_sound(cache.table)


def test_a_policy_that_fails_between_two_steps_is_left_with_every_block() -> None:
    rules = Rules(int(Eviction.FIFO), 9, ttl_seconds=1e6)
    cache, _ = served([(0, 3), (1, 2)], rules)
    before = by_last_touch(cache, rules.policy)
    leave(cache.table, before[0])
    cache.recency.before[cache.recency.after[before[-1]]] = len(cache.table.where)
    cache.recency.after[len(cache.table.where)] = cache.recency.after[before[-1]]
    after = switched(cache, rules.policy, int(Eviction.LRU))
    assert by_last_touch(after, int(Eviction.LRU)) == [before[-1], *before[1:-1]]


def test_a_block_that_expires_is_not_remembered_by_arc() -> None:
    cache, _ = served([(0, 3)], Rules(int(Eviction.ARC), 4, ttl_seconds=2.0))
    next_request(cache.table)
    expire(cache, Rules(int(Eviction.ARC), 4, ttl_seconds=2.0), 9.0)
    assert not any(cache.table.where)


def test_without_a_pass_each_block_makes_room_for_one_and_with_it_for_several() -> None:
    stream = [(0, 4), (1, 1), (2, 1)]
    one, _ = served(stream, Rules(int(Eviction.LRU), 5))
    passes, _ = served(stream, Rules(int(Eviction.LRU), 5, pass_blocks=3))
    assert (one.counts[LEFT + PRESSURE], one.counts[PASSES]) == (2, 0)
    assert (passes.counts[LEFT + PRESSURE], passes.counts[PASSES], passes.counts[PASS_BLOCKS]) == (3, 1, 3)


@pytest.mark.parametrize("policy", list(Eviction))
def test_a_block_is_taken_in_at_its_second_asking_and_remains_known_when_it_has_left(
    policy: Eviction,
) -> None:
    rules = Rules(int(policy), 3, store_threshold=2, ttl_seconds=2.5)
    cache, _ = served([(0, 1), (0, 1), (1, 1), (2, 1), (3, 1)], rules)
    assert cache.counts[REFUSED] == 5, "the shared block once, those of four sessions once each"
    assert cache.counts[WRITTEN] == 2
    assert residents(cache.table) == {0}


def test_sums_are_told_apart_by_kind() -> None:
    requests = packed([[1], [1, 2], [1, 2, 3]])._replace(kinds=[0, 2, 2])
    found = [0, 1, 2]
    assert sums_of_kind(requests, found, 0, 2) == (5, 3, 5, 3, 2)
    assert sums_of_kind(requests, found, 0, 0) == (1, 0, 1, 0, 1)
    assert sums(requests, found, 0) == (6, 3, 6, 3, 3)
