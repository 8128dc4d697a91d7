"""What holds for every policy, and what makes each the policy that it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.blocks import GONE, RESIDENT, TARGET, BlockTable, next_request, pin, resident
from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.arc import TARGET_PARTS
from kvtune_cache.eviction.policy import Eviction, evict, hit, miss
from kvtune_cache.requests import serve
from kvtune_cache.rules import Rules
from tests.cache.reference import ReferenceTier
from tests.cache.streams import CHAINS, POLICIES, assert_sound, chained, distinct, packed, residents


@given(POLICIES, CHAINS, st.integers(1, 14), st.integers(0, 1), st.integers(0, 1))
def test_law_a_table_is_sound_never_too_full_and_says_what_has_left(
    policy: Eviction, drawn: list[tuple[int, int]], capacity: int, tail_first: int, pins: int
) -> None:
    requests = packed(chained(drawn))
    cache = plain_cache(distinct(requests))
    table = cache.table
    rules = Rules(int(policy), capacity, tail_first, pins)
    for r in range(len(requests.starts) - 1):
        before = residents(table)
        start, stop = requests.starts[r], requests.starts[r + 1]
        found = serve(cache, rules, requests, r)
        own = requests.blocks[start : start + min(capacity, stop - start)]
        assert_sound(table)
        after, gone = residents(table), set(table.gone[: table.state[GONE]])
        assert resident(table) == len(after) <= capacity
        assert before - after <= gone and not gone & after - set(own)
        assert found == next(
            (i for i, x in enumerate(requests.blocks[start:stop]) if x not in before), stop - start
        )
        if pins:
            assert not gone & set(own), "a pinned block never leaves"
            assert after >= set(own), "all of a request's blocks that fit are kept"


@given(CHAINS, st.integers(1, 14))
def test_law_lru_is_the_table_of_a_device(drawn: list[tuple[int, int]], capacity: int) -> None:
    requests = packed(chained(drawn))
    cache, device = plain_cache(distinct(requests)), ReferenceTier(capacity)
    for r in range(len(requests.starts) - 1):
        start, stop = requests.starts[r], requests.starts[r + 1]
        serve(cache, Rules(int(Eviction.LRU), capacity), requests, r)
        device.store(requests.blocks[start:stop], 0.0)
        assert residents(cache.table) == {row[0] for row in device.rows}


@given(POLICIES, CHAINS, st.integers(1, 14), st.integers(0, 14))
def test_law_a_smaller_capacity_is_reached_by_the_policy_and_spares_what_is_pinned(
    policy: Eviction, drawn: list[tuple[int, int]], capacity: int, pinned: int
) -> None:
    requests = packed(chained(drawn))
    cache = plain_cache(distinct(requests))
    table = cache.table
    for r in range(len(requests.starts) - 1):
        serve(cache, Rules(int(policy), capacity), requests, r)
    next_request(table)
    held = sorted(residents(table))
    pin(table, held, 0, min(pinned, len(held)))
    count = 0
    while evict(int(policy), cache, max(1, capacity // 2)) >= 0:
        count += 1
        assert_sound(table)
    assert residents(table) == set(held[:pinned])
    assert count == len(held) - len(held[:pinned]) == table.state[GONE]


def after(policy: Eviction, stream: str, capacity: int) -> BlockTable:
    """A table that was asked for one letter after the other."""
    cache = plain_cache(26)
    table = cache.table
    for letter in stream:
        next_request(table)
        x = ord(letter) - ord("a")
        if table.where[x] > RESIDENT:
            hit(int(policy), cache, x)
        else:
            miss(int(policy), cache, x, capacity)
    return table


def left_after(policy: Eviction, stream: str, capacity: int) -> str:
    """Which of the letters of a stream are resident at its end."""
    return "".join(chr(x + ord("a")) for x in sorted(residents(after(policy, stream, capacity))))


@pytest.mark.parametrize(
    ("policy", "stream", "capacity", "left"),
    [
        (Eviction.LRU, "abcad", 3, "acd"),
        (Eviction.FIFO, "abcad", 3, "bcd"),
        (Eviction.SIEVE, "abcad", 3, "acd"),
        # The hand goes on where it stopped: c follows b, although a is unmarked by then.
        (Eviction.SIEVE, "abcade", 3, "ade"),
        # Of the small queue c was touched twice and moves to the main one, d leaves.
        (Eviction.S3FIFO, "abcdefghijklll", 10, "bcdefghijl"),
        # a and b were asked for twice: a scan of new blocks goes by and leaves them.
        (Eviction.ARC, "ababcdefgh", 4, "abgh"),
        (Eviction.LRU, "ababcdefgh", 4, "efgh"),
    ],
)
def test_what_a_policy_keeps(policy: Eviction, stream: str, capacity: int, left: str) -> None:
    assert left_after(policy, stream, capacity) == left


def test_a_block_that_came_back_is_taken_into_the_main_queue_of_s3fifo() -> None:
    once = left_after(Eviction.S3FIFO, "abcdefghijk" + "lmnopqrstuv", 10)
    back = left_after(Eviction.S3FIFO, "abcdefghijk" + "l" + "k" + "mnopqrstuv", 10)
    assert "k" not in once
    assert "k" in back


def test_arc_moves_its_target_to_where_it_was_wrong() -> None:
    more_recent = after(Eviction.ARC, "ababcdef" + "d", 4)
    assert more_recent.state[TARGET] == TARGET_PARTS, "d was let go too early from the recent ones"
    more_frequent = after(Eviction.ARC, "ababcdef" + "d" + "ga", 4)
    assert more_frequent.state[TARGET] == 0, "then a from the frequent ones, of which fewer are remembered"
