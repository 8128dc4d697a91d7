"""Requests over dense block numbers for tests of the block table, and what a table holds."""

from collections.abc import Sequence

from hypothesis import strategies as st

from kvtune_cache.blocks import LISTS, RESIDENT, SIZES, BlockTable
from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.requests import Requests, serve_all, sums
from kvtune_cache.rules import Rules


def packed(requests: Sequence[Sequence[int]], tokens: Sequence[int] = (), block_tokens: int = 1) -> Requests:
    """Requests a second apart, blocks numbered as they come; `tokens` are those of whole requests."""
    numbers: dict[int, int] = {}
    starts, blocks, sizes = [0], [], []
    for number, request in enumerate(requests):
        blocks += [numbers.setdefault(block, len(numbers)) for block in request]
        sizes += [block_tokens] * len(request)
        if tokens:
            sizes[-1] = tokens[number] - block_tokens * (len(request) - 1)
        starts.append(len(blocks))
    count = len(requests)
    times = [float(r) for r in range(count)]
    return Requests(starts, blocks, sizes, times, [-1] * count, [0] * count, [0.0] * count)


def single(blocks: Sequence[int]) -> Requests:
    """A request for each block of a row, a second apart."""
    count = len(blocks)
    times = [float(r) for r in range(count)]
    starts, nothing = list(range(count + 1)), [0.0] * count
    return Requests(starts, list(blocks), [1] * count, times, [-1] * count, [0] * count, nothing)


def distinct(requests: Requests) -> int:
    """How many blocks there are."""
    return max(requests.blocks, default=0) + 1


def token_hit_rate(requests: Requests, rules: Rules, first: int = 0) -> float:
    """The share of hit tokens from request `first` on."""
    found = [0] * (len(requests.starts) - 1)
    serve_all(plain_cache(distinct(requests)), rules, requests, found)
    total = sums(requests, found, first)
    return total.hit_tokens / total.tokens


def members(table: BlockTable, k: int) -> list[int]:
    """The blocks of a list, newest first."""
    sentinel = len(table.where) + k
    found, x = [], table.after[sentinel]
    while x != sentinel:
        found.append(x)
        assert table.before[table.after[x]] == x and table.after[table.before[x]] == x
        x = table.after[x]
    return found


def residents(table: BlockTable) -> set[int]:
    """The resident blocks, by their places."""
    return {x for x, place in enumerate(table.where) if place > RESIDENT}


def assert_sound(table: BlockTable) -> None:
    """Every block is where it says, and every list as long as it says."""
    for k in range(LISTS):
        found = members(table, k)
        assert len(found) == table.state[SIZES + k]
        assert all(table.where[x] == k + 1 for x in found)
    assert sum(place > 0 for place in table.where) == sum(table.state[SIZES : SIZES + LISTS])


POLICIES = st.sampled_from(list(Eviction))
CHAINS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 9)), min_size=1, max_size=60)
"""Session and length: prefixes of eight sessions whose first block is shared."""


def chained(drawn: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The requests of CHAINS."""
    return [[0, *(100 * (session + 1) + depth for depth in range(length))] for session, length in drawn]
