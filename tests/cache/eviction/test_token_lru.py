"""TokenLRU: by attention entropy where it is told, else LRU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.blocks import NO_BLOCK, is_pinned, next_request, pin, resident
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.eviction.policy import Eviction, hit, miss
from kvtune_cache.eviction.token_lru import (
    HIGHEST_WEIGHT,
    LEVEL_WEIGHT,
    LEVELS,
    LOWEST_WEIGHT,
    TOKEN_STEPS,
    UNKNOWN_LEVEL,
    has_entropy,
    level_score,
    tell_weight,
    token_lru_evict,
    token_lru_forget,
    weight,
)
from kvtune_cache.requests import serve
from kvtune_cache.rules import Rules
from kvtune_cache.signals import NOW
from tests.cache.streams import CHAINS, assert_sound, chained, distinct, packed, residents

TOKEN_LRU = int(Eviction.TOKEN_LRU)
BLOCKS = 12


def touch(cache: Cache, x: int, now: float, capacity: int = BLOCKS) -> None:
    """A request of one block."""
    next_request(cache.table)
    cache.request[NOW] = now
    if cache.queues.queue[x] > 0:
        hit(TOKEN_LRU, cache, x)
    else:
        miss(TOKEN_LRU, cache, x, capacity)


def evict(cache: Cache) -> int:
    return token_lru_evict(cache.tokens, cache.queues, cache.table, cache.request)


def score(cache: Cache, x: int) -> float:
    """The score of a block, by itself."""
    told = cache.tokens.levels[x]
    return level_score(told - 1 if told else UNKNOWN_LEVEL, cache.request[NOW] - cache.queues.last[x])


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("touch"), st.integers(0, BLOCKS - 1), st.sampled_from([0.0, 0.5, 7.0, 100.0])),
        st.tuples(st.just("tell"), st.integers(0, BLOCKS - 1), st.floats(LOWEST_WEIGHT, HIGHEST_WEIGHT)),
        st.tuples(st.just("evict"), st.integers(0, BLOCKS), st.just(0.0)),
    ),
    max_size=60,
)


@given(OPERATIONS)
def test_law_the_victim_is_that_of_a_scan_over_all_blocks(drawn: list[tuple[str, int, float]]) -> None:
    cache, now = plain_cache(BLOCKS, TOKEN_LRU), 0.0
    for deed, x, number in drawn:
        if deed == "touch":
            now += number
            touch(cache, x, now)
        elif deed == "tell":
            tell_weight(cache.tokens, cache.queues, x, number)
        else:
            next_request(cache.table)
            cache.request[NOW] = now
            held = sorted(residents(cache.table))
            pin(cache.table, held, 0, min(x, len(held)))
            scores = {y: score(cache, y) for y in held if not is_pinned(cache.table, y)}
            ages = {y: cache.queues.last[y] for y in scores}
            victim = evict(cache)
            assert (victim == NO_BLOCK) == (not scores)
            if scores:
                lowest = [y for y, value in scores.items() if value == min(scores.values())]
                assert victim in lowest
                assert ages[victim] == min(ages[y] for y in lowest), "the oldest of equals"
        assert_sound(cache.table)


@given(CHAINS, st.integers(1, 14), st.integers(0, 1))
def test_law_without_entropy_it_is_lru(drawn: list[tuple[int, int]], capacity: int, pins: int) -> None:
    requests = packed(chained(drawn))
    ours, lru = plain_cache(distinct(requests), TOKEN_LRU), plain_cache(distinct(requests))
    for r in range(len(requests.starts) - 1):
        serve(ours, Rules(TOKEN_LRU, capacity, pins=pins), requests, r)
        serve(lru, Rules(int(Eviction.LRU), capacity, pins=pins), requests, r)
        assert residents(ours.table) == residents(lru.table)
    assert not has_entropy(ours.tokens)


def test_blocks_of_diffuse_attention_leave_before_older_ones_of_focused() -> None:
    cache = plain_cache(BLOCKS, TOKEN_LRU)
    for x, entropy in ((0, 0.1), (1, 0.95), (2, 0.5)):
        touch(cache, x, float(x))
        tell_weight(cache.tokens, cache.queues, x, weight([entropy]))
    assert has_entropy(cache.tokens)
    cache.request[NOW] = 10.0
    assert [evict(cache) for _ in range(4)] == [1, 2, 0, NO_BLOCK]


def test_blocks_of_entities_stay_longer() -> None:
    cache = plain_cache(BLOCKS, TOKEN_LRU)
    for x, structural in ((0, True), (1, False)):
        touch(cache, x, float(x))
        tell_weight(cache.tokens, cache.queues, x, weight([0.4, 0.4], [structural, structural]))
    cache.request[NOW] = 30.0
    assert evict(cache) == 1, "although it was asked for later"


def test_a_weight_is_the_mean_over_the_tokens() -> None:
    assert weight([0.0, 1.0]) == pytest.approx((1.0 + 0.1) / 2)
    assert weight([0.95, 0.5], [False, True]) == pytest.approx((0.1 + 0.5 * 1.3) / 2)
    assert weight([0.0], [True]) == pytest.approx(HIGHEST_WEIGHT)
    assert pytest.approx(1.0) == LOWEST_WEIGHT + UNKNOWN_LEVEL * LEVEL_WEIGHT


@pytest.mark.parametrize(
    ("entropies", "structural", "message"),
    [
        ([], [], "entropies: a block has at least one token"),
        ([0.5, float("nan")], [], "entropies: nan is not from 0 to 1"),
        ([1.5], [], "entropies: 1.5 is not from 0 to 1"),
        ([0.5], [True, False], "structural: 2 marks for 1 tokens"),
    ],
)
def test_entropies_that_cannot_be_are_refused(
    entropies: list[float], structural: list[bool], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        weight(entropies, structural)


def test_a_number_that_is_given_to_another_block_has_no_weight() -> None:
    cache = plain_cache(BLOCKS, TOKEN_LRU)
    tell_weight(cache.tokens, cache.queues, 3, 0.2)
    token_lru_forget(cache.tokens, 3)
    touch(cache, 3, 0.0)
    assert score(cache, 3) == 1.0


@pytest.mark.parametrize("blocks", [1_000, 100_000])
def test_a_victim_costs_one_step_a_level_whatever_the_number_of_blocks(blocks: int) -> None:
    cache = plain_cache(blocks, TOKEN_LRU)
    for x in range(blocks):
        tell_weight(cache.tokens, cache.queues, x, LOWEST_WEIGHT + x % LEVELS * LEVEL_WEIGHT)
        touch(cache, x, float(x), blocks)
    for _ in range(100):
        evict(cache)
    assert cache.tokens.state[TOKEN_STEPS] <= 100 * LEVELS
    assert resident(cache.table) == blocks - 100
