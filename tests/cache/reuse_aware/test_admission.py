"""ReuseAware leaves blocks out that are worth less than what would have to leave for them."""

import random

import pytest

from kvtune_cache.blocks import GHOST_RECENT, NOWHERE, RESIDENT, resident
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.counts import LEFT, PASSES, PRESSURE, REFUSED, WANTED, WRITTEN
from kvtune_cache.eviction.names import LRU, REUSE_AWARE
from kvtune_cache.requests import Requests, cache_for, serve, serve_all
from kvtune_cache.rules import Rules
from tests.cache.reuse_aware.states import assert_sound_state, sessions
from tests.cache.streams import assert_sound, distinct


def only_long_answers(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < (0.9 if style else 0.0)


def learned_by(rules: Rules, requests: Requests) -> Cache:
    cache = cache_for(rules, distinct(requests))
    serve_all(cache, rules, requests, [0] * (len(requests.starts) - 1))
    return cache


def test_what_is_left_out_is_counted_and_remembered_and_nothing_leaves_for_it() -> None:
    requests = sessions(1, 1500, only_long_answers)
    rules = Rules(REUSE_AWARE, 150)
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    out = 0
    for r in range(1500):
        before = [cache.counts[k] for k in (REFUSED, WRITTEN, LEFT + PRESSURE)]
        inside = resident(cache.table)
        head = blocks_of(requests, r)[:150]
        absent = sum(cache.table.where[x] <= RESIDENT for x in head)
        serve(cache, rules, requests, r)
        refused, written, left = (
            cache.counts[k] - was for k, was in zip((REFUSED, WRITTEN, LEFT + PRESSURE), before, strict=True)
        )
        assert refused + written == absent
        assert resident(cache.table) == inside + written - left
        missing = [x for x in head if cache.table.where[x] <= RESIDENT]
        assert len(missing) == refused
        assert all(cache.table.where[x] == GHOST_RECENT + 1 for x in missing)
        out += refused > 0
    assert out > 50


def blocks_of(requests: Requests, r: int) -> list[int]:
    return list(requests.blocks[requests.starts[r] : requests.starts[r + 1]])


def test_a_part_is_a_head() -> None:
    requests = sessions(1, 1500, only_long_answers)
    cache, parts = plain_cache(distinct(requests), REUSE_AWARE), 0
    for r in range(1500):
        serve(cache, Rules(REUSE_AWARE, 150), requests, r)
        kept = [cache.table.where[x] > RESIDENT for x in blocks_of(requests, r)]
        assert kept == sorted(kept, reverse=True)
        parts += 0 < sum(kept) < len(kept)
    assert parts > 5


def test_long_requests_that_nobody_asks_for_again_push_nothing_out() -> None:
    requests = sessions(2, 3000, only_long_answers)
    ours, lru = (learned_by(Rules(policy, 150), requests) for policy in (REUSE_AWARE, LRU))
    assert ours.counts[LEFT + PRESSURE] < 0.7 * lru.counts[LEFT + PRESSURE]


@pytest.mark.parametrize(
    "rules",
    [
        Rules(REUSE_AWARE, 150, pass_blocks=20),
        Rules(REUSE_AWARE, 150, store_threshold=2),
        Rules(REUSE_AWARE, 150, ttl_seconds=60.0),
        Rules(REUSE_AWARE, 150, pass_blocks=150, store_threshold=2, ttl_seconds=60.0),
    ],
    ids=["passes", "threshold", "ttl", "all"],
)
def test_passes_thresholds_and_ttls_go_along_with_it(rules: Rules) -> None:
    requests = sessions(3, 500, only_long_answers)
    cache = cache_for(rules, distinct(requests))
    for r in range(500):
        serve(cache, rules, requests, r)
        assert resident(cache.table) <= 150
    assert_sound(cache.table)
    assert_sound_state(cache)
    assert cache.counts[REFUSED] > 0
    assert (cache.counts[PASSES] > 0) == (rules.pass_blocks > 0)


def test_what_had_left_and_is_left_out_when_it_is_asked_for_again_was_wanted_once() -> None:
    requests = sessions(4, 1500, only_long_answers)
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    checked = 0
    for r in range(1500):
        had_left = {x for x in blocks_of(requests, r) if cache.left[x] == PRESSURE}
        before = cache.counts[WANTED + PRESSURE]
        serve(cache, Rules(REUSE_AWARE, 150), requests, r)
        assert cache.counts[WANTED + PRESSURE] - before == len(had_left)
        checked += any(cache.table.where[x] <= RESIDENT for x in had_left)
    assert checked > 0


def test_without_pins_everything_is_taken_in() -> None:
    requests = sessions(5, 800, only_long_answers)
    assert learned_by(Rules(REUSE_AWARE, 150, pins=0), requests).counts[REFUSED] == 0


def test_what_a_threshold_refuses_is_not_seen_wherever_it_stands() -> None:
    requests = sessions(3, 500, only_long_answers)
    rules = Rules(REUSE_AWARE, 150, store_threshold=2)
    cache = learned_by(rules, requests)
    once = [x for x, count in enumerate(cache.asked) if count == 1]
    assert len(once) > 100
    assert all(cache.table.where[x] == NOWHERE and cache.reuse.blocks.marks[x] == 0 for x in once)
