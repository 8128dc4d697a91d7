"""ReuseAware keeps its state sound whatever is asked of it, and keeps parents as long as their children."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_cache.blocks import NO_BLOCK, RECENT, RESIDENT, SIZES
from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import REUSE_AWARE, adopt, drop, evict
from kvtune_cache.requests import Requests, serve, serve_all
from kvtune_cache.reuse_aware.policy import reuse_forget, reuse_trim
from kvtune_cache.reuse_aware.state import AGES, BINS, LEAF, USED
from kvtune_cache.rules import Rules
from kvtune_cache.signals import NOW
from kvtune_cache.tiers import CacheSettings, TieredCache
from tests.cache.reuse_aware.states import assert_sound_state, sessions
from tests.cache.streams import CHAINS, assert_sound, chained, distinct, packed


def paced(requests: Requests, seconds: float) -> Requests:
    return requests._replace(times=[seconds * r for r in range(len(requests.times))])


@settings(deadline=None, max_examples=40)
@given(
    drawn=CHAINS,
    capacity=st.integers(1, 14),
    seconds=st.sampled_from([0.0, 0.3, 7.0, 900.0]),
    tail_first=st.integers(0, 1),
    pins=st.integers(0, 1),
)
def test_the_state_is_sound_after_every_request(
    drawn: list[tuple[int, int]], capacity: int, seconds: float, tail_first: int, pins: int
) -> None:
    requests = paced(packed(chained(drawn)), seconds)
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    rules = Rules(REUSE_AWARE, capacity, tail_first=tail_first, pins=pins)
    for r in range(len(drawn)):
        serve(cache, rules, requests, r)
        assert cache.table.state[SIZES + RECENT] <= capacity
        assert_sound(cache.table)
        assert_sound_state(cache)


@settings(deadline=None, max_examples=40)
@given(
    drawn=CHAINS,
    deeds=st.lists(
        st.tuples(st.sampled_from(["drop", "adopt", "evict", "forget", "trim"]), st.integers(0, 99))
    ),
)
def test_the_state_is_sound_whatever_is_taken_out_and_in(
    drawn: list[tuple[int, int]], deeds: list[tuple[str, int]]
) -> None:
    requests = paced(packed(chained(drawn)), 5.0)
    blocks = distinct(requests)
    cache, capacity = plain_cache(blocks, REUSE_AWARE), 10
    rules = Rules(REUSE_AWARE, capacity)
    for r in range(len(drawn)):
        serve(cache, rules, requests, r)
        if r < len(deeds):
            deed, number = deeds[r]
            x = number % blocks
            resident = cache.table.where[x] > RESIDENT
            if deed == "drop" and resident:
                drop(REUSE_AWARE, cache, x)
            elif deed == "adopt" and not resident and cache.table.state[SIZES + RECENT] < capacity:
                adopt(REUSE_AWARE, cache, x)
            elif deed == "evict":
                evict(REUSE_AWARE, cache, capacity)
            elif deed == "forget" and not resident:
                reuse_forget(cache, x)
            elif deed == "trim":
                reuse_trim(cache, 1)
        assert_sound(cache.table)
        assert_sound_state(cache)


def test_no_child_outlives_its_parent() -> None:
    requests = sessions(1, 800, lambda rng, _, style: rng.random() < 0.5 + 0.3 * style)
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    for r in range(800):
        serve(cache, Rules(REUSE_AWARE, 120), requests, r)
        where, parent = cache.table.where, cache.reuse.blocks.parent
        for x, place in enumerate(where):
            assert place <= RESIDENT or parent[x] == NO_BLOCK or where[parent[x]] > RESIDENT


def test_pinned_blocks_stay_and_evicting_all_others_ends() -> None:
    requests = packed([[1, 2, 3], [4, 5], [6]])
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    for r in range(3):
        serve(cache, Rules(REUSE_AWARE, 6), requests, r)
    gone = [evict(REUSE_AWARE, cache, 6) for _ in range(5)]
    assert set(gone) == {0, 1, 2, 3, 4}
    assert gone.index(2) < gone.index(1) < gone.index(0) and gone.index(4) < gone.index(3)
    assert evict(REUSE_AWARE, cache, 6) == NO_BLOCK


def test_a_cold_start_orders_as_lru_does() -> None:
    requests = paced(packed([[session] for session in range(30)]), 40.0)
    cache = plain_cache(30, REUSE_AWARE)
    serve_all(cache, Rules(REUSE_AWARE, 8), requests, [0] * 30)
    assert {x for x, place in enumerate(cache.table.where) if place > RESIDENT} == set(range(22, 30))


def test_adopted_blocks_leave_oldest_first_and_find_their_parents_again() -> None:
    requests = packed([[0, 1, 2]])
    cache = plain_cache(6, REUSE_AWARE)
    cache.request[NOW] = 100.0
    for x in (5, 4, 3, 2, 1, 0):
        adopt(REUSE_AWARE, cache, x)
    assert_sound_state(cache)
    assert serve(cache, Rules(REUSE_AWARE, 6), requests._replace(times=[101.0]), 0) == 3
    assert_sound_state(cache)
    assert [evict(REUSE_AWARE, cache, 6) for _ in range(4)] == [5, 4, 3, NO_BLOCK]


@settings(deadline=None, max_examples=60)
@given(
    drawn=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True), min_size=1, max_size=30),
    dropped=st.lists(st.integers(0, 7)),
)
def test_requests_that_are_no_chains_never_make_a_block_its_own_ancestor(
    drawn: list[list[int]], dropped: list[int]
) -> None:
    requests = paced(packed(drawn), 5.0)
    cache, rules = plain_cache(8, REUSE_AWARE), Rules(REUSE_AWARE, 6)
    where, parent = cache.table.where, cache.reuse.blocks.parent
    for r in range(len(drawn)):
        serve(cache, rules, requests, r)
        for x in dropped[r : r + 1]:
            if where[x] > RESIDENT:
                drop(REUSE_AWARE, cache, x)
        assert_sound_state(cache)
        for x in range(8):
            steps = 0
            while x != NO_BLOCK and where[x] > RESIDENT:
                x, steps = parent[x], steps + 1
                assert steps <= 8


def test_pairs_that_were_asked_for_both_ways_round_leave_like_others() -> None:
    pairs = [[x, x + 1] for x in range(0, 48, 2)]
    both = [order for pair in pairs for order in (pair, pair[::-1])]
    requests = paced(packed(both + [[x] for x in range(48, 148)]), 1.0)
    cache = plain_cache(148, REUSE_AWARE)
    rules = Rules(REUSE_AWARE, 60)
    for r in range(len(both)):
        serve(cache, rules, requests, r)
    parent = cache.reuse.blocks.parent

    assert all(parent[parent[x]] == NO_BLOCK for x in range(48) if parent[x] != NO_BLOCK)
    leaves = sum(mark & LEAF > 0 for mark in cache.reuse.blocks.marks[:48])
    assert leaves == 24


class Read(list[int]):
    """A list that counts how often it is read."""

    reads = 0

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]  # as the list's
        """Count, and give the item."""
        self.reads += 1
        return super().__getitem__(i)


def test_a_long_request_that_is_there_costs_a_few_looks_at_parents_a_block() -> None:
    length = 2_000
    requests, cache = packed([[*range(length)]] * 3), plain_cache(length, REUSE_AWARE)
    parents = Read(cache.reuse.blocks.parent)
    cache = cache._replace(reuse=cache.reuse._replace(blocks=cache.reuse.blocks._replace(parent=parents)))
    for r in range(3):
        parents.reads = 0
        assert serve(cache, Rules(REUSE_AWARE, length), requests, r) == (length if r else 0)
        assert parents.reads <= 6 * length


def test_more_room_for_numbers_leaves_what_was_learned_as_it_was() -> None:
    settings = CacheSettings(ttl_seconds=inf, eviction_ratio=0.05, host_blocks=300, policy="ReuseAware")
    cache, now, fresh = TieredCache(20, settings), 0.0, 0
    room, grown = cache.numbering.room, 0
    for r in range(1, 200):
        now += 86_400.0 if r == 54 else 0.5
        length = 20 if r > 50 else 10
        cache.process(list(range(fresh, fresh + length)), now, output_tokens=20)
        fresh += length
        grown, room = grown + (cache.numbering.room != room), cache.numbering.room
        reuse = cache.host.cache.reuse
        assert (
            min(reuse.cells.rate[s * BINS + b] for s in range(reuse.numbers[USED]) for b in range(AGES)) > 0
        )
    assert grown > 0
