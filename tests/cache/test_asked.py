"""A store threshold counts a block's askings however many others come between, within a bounded memory."""

from itertools import chain
from math import inf

import pytest

from kvtune_cache.asked import Asked
from kvtune_cache.counts import WRITTEN
from kvtune_cache.eviction.names import NUMBERS
from kvtune_cache.requests import Requests, cache_for, serve_all
from kvtune_cache.rules import Rules
from kvtune_cache.tiers import CacheSettings, TieredCache

HOT, ONCE, ROUNDS, ROOM = 20, 1000, 8, 200


def rounds() -> list[int]:
    """Hot blocks, and between two askings of each of them thousands that are asked for once."""
    fresh = iter(range(HOT, HOT + ROUNDS * ONCE))
    return list(
        chain.from_iterable((*range(HOT), *(next(fresh) for _ in range(ONCE))) for _ in range(ROUNDS))
    )


@pytest.mark.parametrize("policy", ["LRU", "ARC", "ReuseAware"])
def test_endless_ids_are_stored_and_hit_as_often_as_numbered_blocks(policy: str) -> None:
    settings = CacheSettings(
        ttl_seconds=inf, eviction_ratio=0.001, host_blocks=ROOM, policy=policy, store_threshold=2
    )
    cache = TieredCache(0, settings)
    hits = sum(cache.process([block], float(at)).hit_blocks for at, block in enumerate(rounds()))

    assert (hits, cache.host.counts[WRITTEN]) == ((ROUNDS - 2) * HOT, HOT) == as_numbered(policy)


def as_numbered(policy: str) -> tuple[int, int]:
    """Hits and blocks written where every block has a number of its own."""
    blocks = rounds()
    count = len(blocks)
    rules = Rules(NUMBERS[policy], ROOM, pass_blocks=1, store_threshold=2)
    requests = Requests(
        list(range(count + 1)),
        blocks,
        [1] * count,
        [float(at) for at in range(count)],
        [-1] * count,
        [0] * count,
        [0.0] * count,
    )
    cache, found = cache_for(rules, HOT + ROUNDS * ONCE), [0] * count
    serve_all(cache, rules, requests, found)
    return sum(found), cache.counts[WRITTEN]


def test_the_older_half_is_forgotten_when_the_younger_is_full() -> None:
    asked = Asked(ids_max=2)

    asked.note((block, block) for block in range(6))

    assert len(asked) == 3
    assert [asked.take(block) for block in range(6)] == [0, 0, 0, 3, 4, 5]
    assert len(asked) == 0


def test_what_is_taken_is_no_longer_remembered() -> None:
    asked = Asked()
    asked.note([(7, 2), (8, 0)])

    assert (asked.take(7), asked.take(7), asked.take(8)) == (2, 0, 0)


def test_there_is_room_for_one_at_least() -> None:
    with pytest.raises(ValueError, match="ids_max: 0 is less than 1"):
        Asked(ids_max=0)
