"""Hints of clients: right ones help, wrong ones lose their weight."""

import random

from kvtune_cache.blocks import RESIDENT
from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import LRU, REUSE_AWARE
from kvtune_cache.requests import Requests, serve
from kvtune_cache.rules import Rules
from tests.cache.reuse_aware.states import sessions
from tests.cache.streams import distinct, packed

ENDED = -1.0


def half_return(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < 0.6


def ends(requests: Requests) -> list[bool]:
    """Which requests are the last of their session: nobody asks for their last block again."""
    last = {block: at for at, block in enumerate(requests.blocks)}
    return [last[requests.blocks[stop - 1]] == stop - 1 for stop in requests.starts[1:]]


def hit_blocks(requests: Requests, hints: list[float], policy: int = REUSE_AWARE) -> int:
    cache = plain_cache(distinct(requests), policy)
    hinted = requests._replace(hints=hints)
    return sum(serve(cache, Rules(policy, 500), hinted, r) for r in range(len(hints)))


def test_right_hints_help_and_wrong_ones_harm_within_bounds() -> None:
    requests = sessions(5, 2500, half_return)
    over = ends(requests)
    without = hit_blocks(requests, [0.0] * 2500)
    right = hit_blocks(requests, [ENDED if end else 30.0 for end in over])
    wrong = hit_blocks(requests, [30.0 if end else ENDED for end in over])
    rng = random.Random(1)
    blind = hit_blocks(requests, [ENDED if rng.random() < 0.4 else 0.0 for _ in over])
    assert right > 1.2 * without
    assert wrong > 0.9 * without
    assert blind > 0.9 * without
    assert min(wrong, blind) > hit_blocks(requests, [0.0] * 2500, LRU)


def test_the_blocks_of_a_session_that_is_over_go_first_but_not_what_others_share() -> None:
    requests = packed([[0, 1, 2], [0, 3, 4], [0, 5, 6]])._replace(hints=[0.0, ENDED, 0.0])
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    for r in range(3):
        serve(cache, Rules(REUSE_AWARE, 5), requests, r)
    assert {x for x, place in enumerate(cache.table.where) if place > RESIDENT} == {0, 1, 2, 5, 6}
