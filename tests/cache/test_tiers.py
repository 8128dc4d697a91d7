"""The host tier under the device tier, against a reference that goes block by block."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.tiers import CacheSettings, HostTier, TieredCache
from tests.cache.reference import ReferenceCache
from tests.cache.strategies import changes, requests, settings_of_a_host

WIDE = CacheSettings(ttl_seconds=10.0, eviction_ratio=0.5, host_blocks=10)


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
            fast.host.reconfigure(step, now)
            slow.reconfigure(step, now)
        else:
            done = fast.process(step, now)
            assert (done.hit_blocks, done.host_hit_blocks) == slow.process(step, now)
            passes += done.host.passes
            inserted += done.host.inserted
        assert list(fast.device.entries) == [row[0] for row in slow.device.rows]
        assert list(fast.host.entries.items()) == slow.host.rows
        assert (passes, inserted) == (slow.host.passes, slow.host.inserted)
        assert fast.host.evicted_ttl == slow.host.evicted_ttl
        assert fast.host.evicted_pressure == slow.host.evicted_pressure
        assert fast.host.evicted_resize == slow.host.evicted_resize


@given(settings_of_a_host, st.lists(st.one_of(requests, changes), max_size=40))
def test_occupancy_never_passes_capacity_and_blocks_are_conserved(
    settings: CacheSettings, steps: list[tuple[float, list[int]] | tuple[float, CacheSettings]]
) -> None:
    host, now, inserted = HostTier(settings), 0.0, 0
    for wait, step in steps:
        now += wait
        if isinstance(step, CacheSettings):
            host.reconfigure(step, now)
        else:
            host.sweep(now)
            inserted += host.touch(step, now).inserted
        assert len(host) <= host.settings.host_blocks
        assert inserted == len(host) + host.evicted_ttl + host.evicted_pressure + host.evicted_resize


@given(settings_of_a_host, st.lists(requests, max_size=20), st.integers(0, 30))
def test_growing_evicts_nothing_and_shrinking_keeps_the_newest(
    settings: CacheSettings, steps: list[tuple[float, list[int]]], size: int
) -> None:
    host, now = HostTier(settings), 0.0
    for wait, blocks in steps:
        now += wait
        host.sweep(now)
        host.touch(blocks, now)
    before = list(host.entries)
    host.reconfigure(replace(settings, host_blocks=size), now)
    assert list(host.entries) == before[max(0, len(before) - size) :]
    assert host.evicted_resize == max(0, len(before) - size)


def test_a_block_idle_for_exactly_the_ttl_still_hits_and_after_it_misses() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1, 2], 0.0)
    assert cache.process([1, 2], 10.0).hit_blocks == 2
    cache.process([9], 10.0)
    assert cache.process([1, 2], 20.5).hit_blocks == 0
    assert cache.host.evicted_ttl == 3


def test_room_made_by_the_ttl_needs_no_pass() -> None:
    cache = TieredCache(1, WIDE)
    cache.process(list(range(10)), 0.0)
    assert cache.process(list(range(20, 30)), 11.0).host.passes == 0
    assert (cache.host.evicted_ttl, cache.host.evicted_pressure) == (10, 0)


def test_a_pass_frees_the_ratio_of_the_capacity_at_once() -> None:
    cache = TieredCache(1, WIDE)
    cache.process(list(range(10)), 0.0)
    work = cache.process([50], 1.0).host
    assert (work.inserted, work.passes, work.pass_blocks) == (1, 1, 5)
    assert list(cache.host.entries) == [4, 3, 2, 1, 0, 50]


def test_a_pass_skips_the_blocks_of_the_request_it_serves() -> None:
    cache = TieredCache(1, WIDE)
    cache.process([1, 2, 3], 0.0)
    cache.process(list(range(20, 27)), 1.0)
    cache.process([1, 2, 3, 4], 2.0)
    assert set(cache.host.entries) >= {1, 2, 3, 4}


def test_a_small_ratio_still_frees_one_block() -> None:
    assert replace(WIDE, eviction_ratio=0.001).pass_blocks == 1


def test_a_ratio_that_floats_cannot_hold_frees_the_blocks_it_names() -> None:
    assert CacheSettings(ttl_seconds=1.0, eviction_ratio=0.29, host_blocks=100).pass_blocks == 29


def test_a_longer_ttl_does_not_bring_back_what_the_old_one_ended() -> None:
    host = HostTier(WIDE)
    host.touch([1], 0.0)
    host.reconfigure(replace(WIDE, ttl_seconds=100.0), 11.0)
    assert (len(host), host.evicted_ttl) == (0, 1)


def test_a_shorter_ttl_ends_existing_blocks_at_once() -> None:
    host = HostTier(WIDE)
    host.touch([1], 0.0)
    host.touch([2], 4.0)
    host.reconfigure(replace(WIDE, ttl_seconds=2.0), 5.0)
    assert (list(host.entries), host.evicted_ttl) == ([2], 1)


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
