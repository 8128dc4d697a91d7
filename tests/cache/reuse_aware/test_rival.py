"""ReuseAware knows what LRU would have, and orders as it where that does better after a change of traffic."""

import random

import pytest

from kvtune_cache.blocks import RESIDENT, resident
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.counts import LEFT, TTL
from kvtune_cache.eviction.names import LRU, REUSE_AWARE
from kvtune_cache.requests import Requests, serve, serve_all
from kvtune_cache.reuse_aware.cohorts import settle
from kvtune_cache.reuse_aware.learning import (
    LEFT_TO_LRU,
    STARTLING,
    close_request,
    learn,
    surprise_of,
)
from kvtune_cache.reuse_aware.rival import FIRST_SPAN, SPAN_GROWTH, compare, follow, trim_rival
from kvtune_cache.reuse_aware.state import (
    BEHIND,
    FOLLOWING,
    NEXT_FIT,
    REQUESTS,
    SPAN,
    STARTLED,
    UNTIL,
    Reuse,
)
from kvtune_cache.rules import Rules
from tests.cache.reuse_aware.adversaries import Traffic, after, loop, sessions_of
from tests.cache.reuse_aware.states import rival_blocks, sessions
from tests.cache.streams import distinct


def by_chance(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < 0.5 + 0.3 * style


def test_the_rival_has_what_lru_would_have() -> None:
    requests = sessions(5, 500, by_chance)
    ours, lru = (plain_cache(distinct(requests), policy) for policy in (REUSE_AWARE, LRU))
    for r in range(500):
        serve(ours, Rules(REUSE_AWARE, 150), requests, r)
        serve(lru, Rules(LRU, 150), requests, r)
        trim_rival(ours.reuse, resident(ours.table))
        assert {*rival_blocks(ours)} == {x for x, place in enumerate(lru.table.where) if place > RESIDENT}


def test_what_expires_leaves_the_rival_too() -> None:
    requests = sessions(5, 300, by_chance)
    cache = plain_cache(distinct(requests), REUSE_AWARE, recency=True)
    rules = Rules(REUSE_AWARE, 150, ttl_seconds=20.0)
    for r in range(300):
        serve(cache, rules, requests, r)
        expired = {x for x, reason in enumerate(cache.left) if reason == TTL}
        assert expired.isdisjoint(rival_blocks(cache))
    assert cache.counts[LEFT + TTL] > 100


def followed(requests: Requests, capacity: int) -> list[int]:
    """The requests at which it began to order as LRU, and those at which it no longer did."""
    cache, found = plain_cache(distinct(requests), REUSE_AWARE), []
    before = 0
    for r in range(len(requests.times)):
        serve(cache, Rules(REUSE_AWARE, capacity), requests, r)
        if cache.reuse.numbers[FOLLOWING] != before:
            before = cache.reuse.numbers[FOLLOWING]
            found.append(r)
    return found


def test_after_a_loop_it_leaves_it_to_lru_for_a_time() -> None:
    looping = loop(45, documents=60, blocks=10, rounds=20, jitter=3.0)
    traffic = Traffic(chance=lambda passed, style: 0.6, requests=1500)
    requests = after(looping, sessions_of(traffic, 44))
    began, ended = followed(requests, 300)[:2]
    change = len(looping.times)
    assert change < began < change + 400
    assert ended == began + FIRST_SPAN


def test_what_is_left_when_it_leaves_it_to_lru_is_no_surprise_by_itself() -> None:
    requests = sessions(6, 700, by_chance)
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    for r in range(700):
        serve(cache, Rules(REUSE_AWARE, 150), requests, r)
    reuse = cache.reuse
    close_request(reuse)
    settle(reuse, requests.times[-1])
    events, exposure = sum(reuse.cells.events), sum(reuse.cells.exposure)
    reuse.numbers[STARTLED], reuse.numbers[NEXT_FIT] = 1, 10**6
    reuse.reals[BEHIND] = -1e6
    learn(reuse, requests.times[-1])
    assert reuse.numbers[FOLLOWING] == 1
    assert sum(reuse.cells.events) == pytest.approx(LEFT_TO_LRU * events)
    assert sum(reuse.cells.exposure) == pytest.approx(LEFT_TO_LRU * exposure)
    assert surprise_of(reuse) < STARTLING


def test_it_does_not_where_returns_are_chance_alone() -> None:
    traffic = Traffic(chance=lambda passed, style: 0.5, requests=3000)
    assert followed(sessions_of(traffic, 11), 400) == []


def test_following_it_evicts_what_lru_would() -> None:
    requests = sessions(6, 700, by_chance)
    ours = plain_cache(distinct(requests), REUSE_AWARE)
    follow(ours.reuse)
    for r in range(FIRST_SPAN - 1):
        serve(ours, Rules(REUSE_AWARE, 150), requests, r)
    lru = plain_cache(distinct(requests), LRU)
    serve_all(lru, Rules(LRU, 150), first(requests, FIRST_SPAN - 1), [0] * 700)
    assert residents(ours) == residents(lru)


def first(requests: Requests, count: int) -> Requests:
    return requests._replace(starts=requests.starts[: count + 1], times=requests.times[:count])


def residents(cache: Cache) -> set[int]:
    return {x for x, place in enumerate(cache.table.where) if place > RESIDENT}


def test_each_time_is_longer_and_a_long_quiet_shortens_the_next() -> None:
    reuse: Reuse = plain_cache(4, REUSE_AWARE).reuse
    numbers = reuse.numbers
    follow(reuse)
    assert (numbers[UNTIL], numbers[SPAN]) == (FIRST_SPAN, FIRST_SPAN * SPAN_GROWTH)
    numbers[REQUESTS] = numbers[UNTIL]
    compare(reuse, 0)
    assert numbers[FOLLOWING] == 0
    follow(reuse)
    assert numbers[UNTIL] == FIRST_SPAN * (1 + SPAN_GROWTH)
    numbers[REQUESTS] = numbers[UNTIL]
    compare(reuse, 0)
    numbers[REQUESTS] += 2 * numbers[SPAN] + 1
    compare(reuse, 0)
    assert numbers[SPAN] == FIRST_SPAN * SPAN_GROWTH**2 // 2


def test_a_lead_of_ours_makes_up_for_one_of_lru_but_is_not_saved_up() -> None:
    reuse = plain_cache(4, REUSE_AWARE).reuse
    for lead, behind in ((-5, -5.0), (3, -2.0), (9, 0.0), (-1, -1.0)):
        compare(reuse, lead)
        assert reuse.reals[BEHIND] == behind
