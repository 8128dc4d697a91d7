"""What must hold of ReuseAware's state at any time, and streams to serve."""

import random
from collections.abc import Callable
from itertools import pairwise

from kvtune_cache.blocks import GHOST_RECENT, RESIDENT
from kvtune_cache.cache import Cache
from kvtune_cache.requests import Requests
from kvtune_cache.reuse_aware.state import (
    AGES,
    ASIDE,
    BINS,
    CELLS,
    IN_RIVAL,
    LEAF,
    NO_COHORT,
    RIVAL_SIZE,
    ROOT,
    SAMPLED,
    USED,
)


def assert_sound_state(cache: Cache) -> None:
    """Leaves, counts, cohorts and the tree say the same as the blocks."""
    table, reuse = cache.table, cache.reuse
    blocks, cohorts = reuse.blocks, reuse.cohorts
    n = len(blocks.cohort)
    residents = [x for x in range(n) if table.where[x] > RESIDENT]
    for x in range(n):
        kin = sum(blocks.parent[y] == x for y in residents)
        assert blocks.children[x] == kin
        known = table.where[x] > RESIDENT or table.where[x] == GHOST_RECENT + 1
        assert known == (blocks.cohort[x] != NO_COHORT)
        leaf = table.where[x] > RESIDENT and kin == 0
        assert bool(blocks.marks[x] & LEAF) == leaf
    _assert_cohorts(cache)
    _assert_cells(cache)
    assert sum(len(leaves(cache, cell)) for cell in [*range(reuse.numbers[USED] * BINS), ASIDE]) == sum(
        bool(blocks.marks[x] & LEAF) for x in range(n)
    )
    rivals = rival_blocks(cache)
    assert {*rivals} == {x for x in range(n) if blocks.marks[x] & IN_RIVAL}
    assert len(rivals) == reuse.numbers[RIVAL_SIZE]
    live = {blocks.cohort[x] for x in range(n)} - {NO_COHORT}
    assert live == {c for c in range(1, n + 1) if cohorts.members[c] > 0}


def rival_blocks(cache: Cache) -> list[int]:
    """What LRU would have, the oldest first."""
    blocks = cache.reuse.blocks
    end = len(blocks.cohort)
    found, x = [], blocks.rival_newer[end]
    while x != end:
        found.append(x)
        assert (
            blocks.rival_older[blocks.rival_newer[x]] == x and blocks.rival_newer[blocks.rival_older[x]] == x
        )
        x = blocks.rival_newer[x]
    return found


def leaves(cache: Cache, cell: int) -> list[int]:
    """The leaves of a cell, oldest first."""
    blocks = cache.reuse.blocks
    end = len(blocks.cohort) + cell
    found, x = [], blocks.newer[end]
    while x != end:
        found.append(x)
        assert blocks.older[blocks.newer[x]] == x and blocks.newer[blocks.older[x]] == x
        x = blocks.newer[x]
    return found


def _assert_cohorts(cache: Cache) -> None:
    blocks, cohorts = cache.reuse.blocks, cache.reuse.cohorts
    for c in range(1, len(cohorts.started)):
        members = [x for x in range(len(blocks.cohort)) if blocks.cohort[x] == c]
        assert cohorts.members[c] == len(members)
        if members:
            assert cohorts.alive[c] == sum(bool(blocks.marks[x] & SAMPLED) for x in members)


def _assert_cells(cache: Cache) -> None:
    reuse = cache.reuse
    blocks, cohorts = reuse.blocks, reuse.cohorts
    filled = []
    for cell in range(reuse.numbers[USED] * BINS):
        found = leaves(cache, cell)
        assert all(cohorts.cell[blocks.cohort[x]] == cell for x in found)
        ages = [cohorts.started[blocks.cohort[x]] for x in found]
        assert all(a <= b for a, b in pairwise(ages))
        filled += [cell] if found else []
    winner = reuse.cells.winners[reuse.numbers[ROOT]]
    if filled:
        assert winner in filled
        assert reuse.cells.key[winner] == min(reuse.cells.key[cell] for cell in filled)
    else:
        assert winner == -1
    assert reuse.numbers[USED] * BINS <= CELLS and all(cell % BINS < AGES for cell in filled)


def sessions(
    seed: int, requests: int, returns: Callable[[random.Random, int, int], bool], *, length: int = 12
) -> Requests:
    """Sessions that come back, twenty seconds or so later and longer, as often as `returns` lets them.

    It is asked with the number of the request and the session's style, 0 or 1, which shows in its answers: of
    20 or 500 tokens. A request every half second on average.
    """
    rng = random.Random(seed)
    now, fresh, waiting = 0.0, 0, []
    starts, blocks, times, outputs = [0], [], [], []
    for number in range(requests):
        now += rng.expovariate(2.0)
        due = min(waiting, default=None)
        if due is not None and due[0] <= now:
            waiting.remove(due)
            _, style, chain = due
        else:
            style, chain = rng.randrange(2), []
        grown = rng.randrange(2, length)
        chain = [*chain, *range(fresh, fresh + grown)]
        fresh += grown
        blocks += chain
        starts.append(len(blocks))
        times.append(now)
        outputs.append(500 if style else 20)
        if returns(rng, number, style):
            waiting.append((now + rng.lognormvariate(3.0, 0.6), style, chain))
    return Requests(starts, blocks, [1] * len(blocks), times, outputs, [0] * requests, [0.0] * requests)
