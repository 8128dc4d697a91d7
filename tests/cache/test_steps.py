"""Steps for each touched block, counted: what makes a replay slow shows here without a clock."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import pytest

from kvtune_cache.blocks import BlockTable
from kvtune_cache.cache import Cache
from kvtune_cache.counts import LEFT, PRESSURE
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.lru_run import open_by_lru, touch_by_lru
from kvtune_cache.numbering import STRIDE, Numbering
from kvtune_cache.requests import Requests, cache_for, serve_all
from kvtune_cache.rules import Rules
from kvtune_cache.tiers import CacheSettings, TieredCache
from tests.cache.streams import distinct, packed

TURNS, GROWTH = 12, 3
SETTINGS = CacheSettings(ttl_seconds=1e9, eviction_ratio=0.01, host_blocks=400)


class Counted(list[int]):
    """A list that counts how often it is read and written."""

    def __init__(self, values: Iterable[int]) -> None:
        super().__init__(values)
        self.reads = self.writes = 0

    def __getitem__(self, at: Any) -> Any:
        self.reads += 1
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        self.writes += 1
        super().__setitem__(at, value)


class CountedOrder(OrderedDict[int, float]):
    """An order that counts what is done to it."""

    sets = moves = pops = 0

    def __setitem__(self, block: int, seconds: float) -> None:
        self.sets += 1
        super().__setitem__(block, seconds)

    def move_to_end(self, block: int, last: bool = True) -> None:
        self.moves += 1
        super().move_to_end(block, last)

    def popitem(self, last: bool = True) -> tuple[int, float]:
        self.pops += 1
        return super().popitem(last)


def sessions(at_once: int) -> list[list[int]]:
    """Requests of sessions in turn, each GROWTH blocks longer than the last, behind one shared block."""
    length = TURNS * GROWTH
    return [
        [0, *range(1 + session * length, 1 + session * length + GROWTH * (turn + 1))]
        for first in range(0, 6 * at_once, at_once)
        for turn in range(TURNS)
        for session in range(first, first + at_once)
    ]


def counted_table(cache: Cache) -> tuple[Cache, Counted, Counted]:
    """The same cache, whose links count."""
    before, after = Counted(cache.table.before), Counted(cache.table.after)
    table: BlockTable = cache.table._replace(before=before, after=after)
    return cache._replace(table=table), before, after


def served_by_runs(requests: Requests, capacity: int) -> tuple[float, float]:
    """Reads and writes of links for each touched block, by LRU in runs."""
    rules = Rules(int(Eviction.LRU), capacity)
    cache, before, after = counted_table(cache_for(rules, distinct(requests)))
    for r in range(len(requests.starts) - 1):
        open_by_lru(cache, rules, float(r))
        touch_by_lru(cache, rules, requests.blocks[requests.starts[r] : requests.starts[r + 1]])
    touched = len(requests.blocks)
    return (before.reads + after.reads) / touched, (before.writes + after.writes) / touched


def test_lru_in_runs_writes_few_links_for_each_touched_block() -> None:
    requests = packed(sessions(at_once=10))
    roomy, tight = served_by_runs(requests, 10**4), served_by_runs(requests, 40)
    assert roomy[1] < 1.2, "a hit run moves at once, only new blocks are linked"
    assert tight[1] < 2.7, "every block is linked anew, and its leaving writes no link of its own"
    assert roomy[0] < 2 and tight[0] < 2


@pytest.mark.parametrize("policy", [p for p in Eviction if p <= Eviction.ARC])
def test_policies_write_so_many_links_for_a_touch_whatever_their_capacity(policy: Eviction) -> None:
    found = []
    for at_once, capacity in ((10, 200), (40, 800)):
        requests = packed(sessions(at_once))
        rules = Rules(int(policy), capacity)
        cache, before, after = counted_table(cache_for(rules, distinct(requests)))
        serve_all(cache, rules, requests, [0] * (len(requests.starts) - 1))
        moved = len(requests.blocks) + cache.counts[LEFT + PRESSURE]
        found.append((before.writes + after.writes) / moved)
    assert max(found) <= 6, "taking out writes 2 links, putting in 4"


def test_the_replay_engine_sets_moves_and_pops_each_block_once() -> None:
    cache = TieredCache(64, SETTINGS)
    orders = []
    for level in (cache.device, cache.host):
        assert level.recent is not None
        level.recent.entries = CountedOrder()
        orders.append(level.recent.entries)
    requests = sessions(at_once=10)
    for number, blocks in enumerate(requests):
        cache.process(blocks, float(number))
    touched = sum(map(len, requests))
    for order, level in zip(orders, (cache.device, cache.host), strict=True):
        assert order.sets == order.moves == touched
        assert order.pops == level.evicted(PRESSURE) > 0


def test_the_hand_looks_at_few_numbers_for_each_that_it_frees() -> None:
    room, held = 4_000, 1_000
    numbering = Numbering(room)
    where = Counted(int(x % (room // held) == 0) for x in range(room))
    for first in range(0, 10 * room, 20):
        blocks = list(range(first, first + 20))
        numbers = [-1] * 20
        while (lacking := numbering.give(blocks, numbers, 0)) > 0:
            assert len(numbering.free(lacking, [where], set())) >= lacking
    assert numbering.room == room and len(numbering.ids) <= room
    assert where.reads <= 1.5 * 10 * room + STRIDE
