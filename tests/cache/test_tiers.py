"""The host tier under the device tier, against a reference that goes block by block."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.counts import PRESSURE, REFUSED, RESIZE, TTL, WANTED, WRITTEN
from kvtune_cache.eviction.names import NUMBERS
from kvtune_cache.level import Level
from kvtune_cache.requests import left
from kvtune_cache.rules import Rules
from kvtune_cache.tiers import CacheSettings, Flow, TieredCache
from tests.cache.reference import ReferenceCache
from tests.cache.strategies import changes, requests, settings_of_a_host
from tests.cache.streams import assert_sound

WIDE = CacheSettings(ttl_seconds=10.0, eviction_ratio=0.5, host_blocks=10)


def counts(cache: TieredCache) -> tuple[int, int, int]:
    """Blocks that have left the host by TTL, by pressure and by resize."""
    return cache.host.evicted(TTL), cache.host.evicted(PRESSURE), cache.host.evicted(RESIZE)


def ids(cache: TieredCache, level: Level) -> list[int]:
    """The blocks of a tier, least recently used first."""
    return [block for block, _ in cache.ids(level)]


@given(st.integers(1, 12), settings_of_a_host, st.lists(st.one_of(requests, changes), max_size=40))
def test_tiers_agree_with_the_reference_block_by_block(
    device_blocks: int,
    settings: CacheSettings,
    steps: list[tuple[float, list[int]] | tuple[float, CacheSettings]],
) -> None:
    fast, slow, now = TieredCache(device_blocks, settings), ReferenceCache(device_blocks, settings), 0.0
    passes = inserted = 0
    for wait, step in steps:
        now += wait
        if isinstance(step, CacheSettings):
            fast.reconfigure(step, now)
            slow.reconfigure(step, now)
        else:
            done = fast.process(step, now)
            assert (done.hit_blocks, done.host_hit_blocks) == slow.process(step, now)
            passes += done.host.passes
            inserted += done.host.inserted
        assert ids(fast, fast.device) == [row[0] for row in slow.device.rows]
        assert fast.ids(fast.host) == slow.host.rows
        assert (passes, inserted) == (slow.host.passes, slow.host.inserted)
        assert counts(fast) == (slow.host.evicted_ttl, slow.host.evicted_pressure, slow.host.evicted_resize)


@given(
    st.sampled_from(sorted(NUMBERS)),
    settings_of_a_host,
    st.lists(st.one_of(requests, changes), max_size=40),
    st.sampled_from(list(Flow)),
    st.integers(0, 12),
)
def test_law_no_tier_is_too_full_and_blocks_are_conserved_whatever_the_policy(
    policy: str,
    settings: CacheSettings,
    steps: list[tuple[float, list[int]] | tuple[float, CacheSettings]],
    flow: Flow,
    disk_blocks: int,
) -> None:
    disk = Rules(NUMBERS[policy], disk_blocks, ttl_seconds=20.0) if disk_blocks else None
    cache = TieredCache(3, replace(settings, policy=policy), disk=disk, flow=flow)
    now = 0.0
    for wait, step in steps:
        now += wait
        if isinstance(step, CacheSettings):
            cache.reconfigure(replace(step, policy=policy), now)
        else:
            cache.process(step, now)
        for level in cache.levels:
            assert_sound(level.cache.table)
            assert len(level) <= level.rules.capacity
            assert len(ids(cache, level)) == len(set(ids(cache, level))) == len(level)
            assert level.cache.counts[WRITTEN] == len(level) + left(level.cache.counts)


@given(settings_of_a_host, st.lists(requests, max_size=20), st.integers(0, 30))
def test_growing_evicts_nothing_and_shrinking_keeps_the_newest(
    settings: CacheSettings, steps: list[tuple[float, list[int]]], size: int
) -> None:
    cache, now = TieredCache(1, settings), 0.0
    for wait, blocks in steps:
        now += wait
        cache.process(blocks, now)
    before = ids(cache, cache.host)
    cache.reconfigure(replace(settings, host_blocks=size), now)
    assert ids(cache, cache.host) == before[max(0, len(before) - size) :]
    assert cache.host.evicted(RESIZE) == max(0, len(before) - size)


@given(settings_of_a_host, st.lists(st.tuples(requests, st.sampled_from(sorted(NUMBERS))), max_size=20))
def test_law_a_live_switch_of_policies_keeps_every_block_in_order_of_its_last_touch(
    settings: CacheSettings, steps: list[tuple[tuple[float, list[int]], str]]
) -> None:
    cache, now = TieredCache(2, settings), 0.0
    for (wait, blocks), policy in steps:
        now += wait
        cache.process(blocks, now)
        before, counted = cache.ids(cache.host), counts(cache)
        cache.reconfigure(replace(settings, policy=policy), now)
        assert cache.ids(cache.host) == before
        assert counts(cache) == counted
        assert_sound(cache.host.cache.table)


def test_endless_ids_take_bounded_room_and_tiers_lose_nothing_when_it_grows() -> None:
    settings = CacheSettings(ttl_seconds=1e9, eviction_ratio=0.1, host_blocks=20, policy="ARC")
    cache, reference = TieredCache(4, settings), ReferenceCache(4, settings)
    for number in range(3_000):
        cache.process([1, 2, 10 * number, 10 * number + 1], float(number))
        reference.device.store([1, 2, 10 * number, 10 * number + 1], float(number))
    assert cache.numbering.room <= 4 * (4 + 2 * 20) + 64
    assert len(cache.numbering.ids) <= cache.numbering.room
    assert ids(cache, cache.device) == [row[0] for row in reference.device.rows]


@pytest.mark.parametrize("policy", sorted(NUMBERS))
def test_a_request_of_more_blocks_than_there_are_numbers_makes_room(policy: str) -> None:
    cache = TieredCache(4, replace(WIDE, policy=policy))
    cache.process([7, 8], 0.0)
    assert cache.process([7, 8, *range(100, 600)], 1.0).hit_blocks == 2
    assert cache.process([7, 8, 100, 101], 2.0).hit_blocks == 4
    assert policy == "LRU" or cache.numbering.room >= 502, "whole requests of LRU need no numbers"


def test_a_block_that_stands_twice_in_a_request_is_stored_once() -> None:
    cache = TieredCache(4, WIDE)
    cache.process([5, 6, 5], 0.0)
    assert ids(cache, cache.host) == [6, 5]
    assert cache.process([5, 6, 5, 7], 1.0).hit_blocks == 3
    assert ids(cache, cache.host) == [7, 6, 5]


def test_a_block_is_stored_below_the_device_only_when_asked_for_often_enough() -> None:
    cache = TieredCache(1, replace(WIDE, store_threshold=3))
    for second in range(2):
        cache.process([1, 2], float(second))
    assert len(cache.host) == 0
    assert cache.host.cache.counts[REFUSED] == 4
    cache.process([1, 2], 2.0)
    assert ids(cache, cache.host) == [2, 1]
    assert cache.process([1, 2], 20.0).host_hit_blocks == 0, "both have expired"
    assert len(cache.host) == 2, "what was counted outlives the block"


def test_what_the_host_lets_go_goes_down_to_the_disk_and_comes_up_when_asked_for() -> None:
    cache = TieredCache(1, replace(WIDE, host_blocks=2, eviction_ratio=0.1), disk=Rules(0, 10))
    assert cache.disk is not None
    cache.process([1, 2], 0.0)
    cache.process([3, 4], 1.0)
    assert ids(cache, cache.disk) == [2, 1]
    done = cache.process([1, 2, 9], 2.0)
    assert (done.hit_blocks, done.host_hit_blocks, done.disk_hit_blocks) == (2, 2, 2)
    assert ids(cache, cache.host) == [2, 1]
    assert ids(cache, cache.disk) == [2, 1, 4, 3]


def test_by_demotion_the_host_is_written_only_what_the_device_lets_go() -> None:
    cache = TieredCache(2, WIDE, flow=Flow.DEMOTE)
    assert cache.process([1, 2], 0.0).host.inserted == 0
    assert cache.process([3, 4], 1.0).host.inserted == 2
    assert ids(cache, cache.host) == [2, 1]
    assert cache.process([1, 2], 2.0).host_hit_blocks == 2


def test_by_demotion_too_the_host_takes_in_only_what_was_asked_for_often_enough() -> None:
    cache = TieredCache(1, replace(WIDE, store_threshold=2), flow=Flow.DEMOTE)
    cache.process([1], 0.0)
    cache.process([2], 1.0)
    assert len(cache.host) == 0
    cache.process([1], 2.0)
    cache.process([3], 3.0)
    assert ids(cache, cache.host) == [1]


def test_a_block_that_has_left_and_is_asked_for_again_is_counted_by_its_reason() -> None:
    cache = TieredCache(1, replace(WIDE, host_blocks=2, eviction_ratio=0.1))
    wanted = cache.host.cache.counts
    cache.process([1, 2], 0.0)
    cache.process([3], 1.0)
    cache.process([1, 2], 2.0)
    assert (wanted[WANTED + PRESSURE], wanted[WANTED + TTL]) == (1, 0)
    cache.process([1], 20.0)
    assert (wanted[WANTED + PRESSURE], wanted[WANTED + TTL]) == (1, 1)


def test_a_block_idle_for_exactly_the_ttl_still_hits_and_after_it_misses() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1, 2], 0.0)
    assert cache.process([1, 2], 10.0).hit_blocks == 2
    cache.process([9], 10.0)
    assert cache.process([1, 2], 20.5).hit_blocks == 0
    assert cache.host.evicted(TTL) == 3


def test_room_made_by_the_ttl_needs_no_pass() -> None:
    cache = TieredCache(1, WIDE)
    cache.process(list(range(10)), 0.0)
    assert cache.process(list(range(20, 30)), 11.0).host.passes == 0
    assert counts(cache) == (10, 0, 0)


def test_a_pass_frees_the_ratio_of_the_capacity_at_once() -> None:
    cache = TieredCache(1, WIDE)
    cache.process(list(range(10)), 0.0)
    work = cache.process([50], 1.0).host
    assert (work.inserted, work.passes, work.pass_blocks) == (1, 1, 5)
    assert ids(cache, cache.host) == [4, 3, 2, 1, 0, 50]


def test_a_pass_skips_the_blocks_of_the_request_it_serves() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1, 2, 3], 0.0)
    cache.process(list(range(20, 27)), 1.0)
    cache.process([1, 2, 3, 4], 2.0)
    assert set(ids(cache, cache.host)) >= {1, 2, 3, 4}


def test_a_small_ratio_still_frees_one_block() -> None:
    assert replace(WIDE, eviction_ratio=0.001).pass_blocks == 1


def test_a_ratio_that_floats_cannot_hold_frees_the_blocks_it_names() -> None:
    assert CacheSettings(ttl_seconds=1.0, eviction_ratio=0.29, host_blocks=100).pass_blocks == 29


def test_a_longer_ttl_does_not_bring_back_what_the_old_one_ended() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1], 0.0)
    cache.reconfigure(replace(WIDE, ttl_seconds=100.0), 11.0)
    assert (len(cache.host), cache.host.evicted(TTL)) == (0, 1)


def test_a_shorter_ttl_ends_existing_blocks_at_once() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1], 0.0)
    cache.process([2], 4.0)
    cache.reconfigure(replace(WIDE, ttl_seconds=2.0), 5.0)
    assert (ids(cache, cache.host), cache.host.evicted(TTL)) == ([2], 1)


def test_a_device_of_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="device_blocks: -1 is less than 0"):
        TieredCache(-1, WIDE)


def test_a_block_the_host_lost_still_hits_on_the_device() -> None:
    cache = TieredCache(4, WIDE)
    cache.process([1, 2], 0.0)
    done = cache.process([1, 2], 50.0)
    assert (done.hit_blocks, done.host_hit_blocks) == (2, 0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ttl_seconds", 0.0, "ttl_seconds: 0.0 is not greater than 0"),
        ("ttl_seconds", float("nan"), "ttl_seconds: nan is not greater than 0"),
        ("eviction_ratio", 0.0, "eviction_ratio: 0.0 is not within"),
        ("eviction_ratio", 1.5, "eviction_ratio: 1.5 is not within"),
        ("host_blocks", -1, "host_blocks: -1 is less than 0"),
        ("policy", "MRU", "policy: MRU is not one of LRU, FIFO, S3FIFO, SIEVE, ARC, TokenLRU"),
        ("store_threshold", 0, "store_threshold: 0 is not within 1 to 255"),
    ],
)
def test_settings_no_tier_can_run_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(WIDE, **{field: value})  # type: ignore[arg-type]  # one field at a time, each its own type
