"""ReuseAware: the leaf of least index leaves, the index being learned from every touch.

A block that is worth less than what would have to leave for it is left out. Known blocks are the resident
ones and a memory of those that left or were left out, ten times the capacity. A block is a leaf where none
that came after it in a request is resident, so that no block outlives what is needed to reach it.
"""

from typing import Final

from kvtune_cache.blocks import (
    EPOCH,
    GHOST_RECENT,
    NO_BLOCK,
    NOWHERE,
    RECENT,
    RESIDENT,
    SIZES,
    Integers,
    is_pinned,
    leave,
    link,
    oldest_free,
    renew,
    resident,
    unlink,
)
from kvtune_cache.cache import Cache
from kvtune_cache.reuse_aware.cells import (
    bring_back,
    look_again,
    oldest_leaf,
    place_leaf,
    pull_leaf,
    push_leaf,
    put_in_place_of,
)
from kvtune_cache.reuse_aware.classes import UNKNOWN, request_class, told_class
from kvtune_cache.reuse_aware.cohorts import cohort_of, cohort_slot, end_wait, grow_older, part
from kvtune_cache.reuse_aware.learning import class_of, close_request, learn, sample, touch_block
from kvtune_cache.reuse_aware.parents import known_prefix, leads_to, take_in
from kvtune_cache.reuse_aware.rival import leave_rival, touch_rival, trim_rival
from kvtune_cache.reuse_aware.state import (
    ASIDE,
    BASE,
    BINS,
    CLASS,
    DEPARTURES,
    ENDS,
    FOLLOWING,
    LAST,
    LEAF,
    NO_COHORT,
    OPEN,
    REQUESTS,
    ROOT,
    SAMPLED,
    SERVED_AT,
    Reuse,
)
from kvtune_cache.signals import HINT, KIND, NOW, OUTPUT_TOKENS, POSITION

MEMORY: Final = 10
"""For how many departures a block is remembered after its own, in capacities."""

TURN: Final = 1 << 30
"""Departures are numbered up to here, then from 0 again."""


def reuse_begin(cache: Cache, blocks: Integers, start: int, stop: int) -> None:
    """Note what is known of a request before any of its blocks is touched; learn from time to time."""
    reuse, now = cache.reuse, cache.request[NOW]
    numbers = reuse.numbers
    close_request(reuse)
    reuse.reals[SERVED_AT] = now
    bring_back(reuse)
    grow_older(reuse, now)
    look_again(reuse, now)
    numbers[REQUESTS] += 1
    learn(reuse, now)
    sample(reuse, stop - start)
    trim_rival(reuse, resident(cache.table))
    known = known_prefix(cache, blocks, start, stop)
    gap = -1.0
    if known > 0:
        y = blocks[start + known - 1]
        if reuse.blocks.marks[y] & ENDS:
            gap = now - reuse.cohorts.started[reuse.blocks.cohort[y]]
    told = told_class(int(cache.request[KIND]), cache.request[HINT])
    numbers[CLASS] = request_class(gap, stop - start - known, cache.request[OUTPUT_TOKENS], told)
    numbers[LAST] = stop - start - 1


def reuse_hit(cache: Cache, x: int) -> None:
    """Make x the newest of its new class."""
    renew(cache.table, x, RECENT)
    touch_block(cache.reuse, x, cache.request[NOW], int(cache.request[POSITION]))
    reuse = cache.reuse
    if reuse.blocks.marks[x] & LEAF:
        pull_leaf(reuse, x)
        push_leaf(reuse, x, reuse.cohorts.cell[reuse.blocks.cohort[x]])


def reuse_miss(cache: Cache, x: int, capacity: int) -> None:
    """Take x in; leave it out where every resident block is pinned."""
    table, reuse = cache.table, cache.reuse
    if table.state[SIZES + RECENT] >= capacity and reuse_evict(cache, capacity) == NO_BLOCK:
        return
    if table.where[x] != NOWHERE:
        unlink(table, x)
    link(table, x, RECENT)
    touch_block(reuse, x, cache.request[NOW], int(cache.request[POSITION]))
    take_in(reuse, x)
    if reuse.blocks.children[x] == 0:
        push_leaf(reuse, x, reuse.cohorts.cell[reuse.blocks.cohort[x]])


def reuse_takes(cache: Cache, x: int, position: int) -> bool:
    """Say whether a block is worth at least as much as the leaf that would have to leave for it."""
    reuse = cache.reuse
    if _next_leaf(cache) == NO_BLOCK or reuse.numbers[FOLLOWING] == 1:
        return True
    number = class_of(reuse, x, position)
    worth = reuse.cells.worth[cohort_slot(reuse, number) * BINS]
    return worth >= reuse.cells.key[reuse.cells.winners[reuse.numbers[ROOT]]]


def reuse_pass(cache: Cache, x: int, capacity: int) -> None:
    """Remember a block that was asked for and is left out."""
    touch_block(cache.reuse, x, cache.request[NOW], int(cache.request[POSITION]))
    if cache.table.where[x] != NOWHERE:
        unlink(cache.table, x)
    _remember(cache, x, capacity)


def reuse_evict(cache: Cache, capacity: int) -> int:
    """Let the leaf of least index go that is not pinned, and remember it; NO_BLOCK when all are pinned."""
    table = cache.table
    x = _next_leaf(cache)
    if x == NO_BLOCK:
        x = oldest_free(table, RECENT)
        if x == NO_BLOCK:
            return NO_BLOCK
    leave(table, x)
    _let_go(cache, x)
    _remember(cache, x, capacity)
    return x


def _next_leaf(cache: Cache) -> int:
    """Find the leaf of least index that is not pinned, and put pinned ones aside; NO_BLOCK without any."""
    table, reuse = cache.table, cache.reuse
    x = oldest_leaf(reuse)
    while x != NO_BLOCK and table.pinned[x] == table.state[EPOCH]:
        pull_leaf(reuse, x)
        push_leaf(reuse, x, ASIDE)
        x = oldest_leaf(reuse)
    return x


def _remember(cache: Cache, x: int, capacity: int) -> None:
    """Remember a block that has left or was left out, and forget others for it."""
    reuse = cache.reuse
    link(cache.table, x, GHOST_RECENT)
    reuse.blocks.newer[x] = reuse.numbers[DEPARTURES]
    reuse.numbers[DEPARTURES] = (reuse.numbers[DEPARTURES] + 1) % TURN
    reuse_trim(cache, capacity)


def reuse_drop(cache: Cache, x: int) -> None:
    """Forget a block that the caller takes out."""
    leave(cache.table, x)
    _let_go(cache, x)
    _forget(cache.reuse, x, cache.request[NOW])


def reuse_adopt(cache: Cache, x: int) -> None:
    """Take in a block without a request: as old as it is remembered to be, else as touched first and now."""
    table, reuse = cache.table, cache.reuse
    if table.where[x] != NOWHERE:
        unlink(table, x)
    link(table, x, RECENT)
    if reuse.blocks.cohort[x] == NO_COHORT:
        c = cohort_of(reuse, UNKNOWN, cache.request[NOW])
        reuse.cohorts.members[c] += 1
        reuse.blocks.cohort[x] = c
    touch_rival(reuse, x)
    if leads_to(reuse.blocks, x, reuse.blocks.parent[x]):
        reuse.blocks.parent[x] = NO_BLOCK
    take_in(reuse, x)
    if reuse.blocks.children[x] == 0:
        place_leaf(reuse, x)


def reuse_trim(cache: Cache, capacity: int) -> None:
    """Forget the blocks since whose departure more others have left than the capacity allows.

    Up to one of the request being served: it may be taken in yet, under its parent.
    """
    blocks, before, departures = cache.reuse.blocks, cache.table.before, cache.reuse.numbers[DEPARTURES]
    end = len(cache.table.where) + GHOST_RECENT
    x = before[end]
    while (
        x != end
        and (departures - blocks.newer[x]) % TURN >= MEMORY * capacity
        and not is_pinned(cache.table, x)
    ):
        reuse_forget(cache, x)
        x = before[end]


def reuse_forget(cache: Cache, x: int) -> None:
    """Know a block no longer that is not resident; its number may stand for another one.

    Resident blocks that were its children go on as such: they are counted down as they leave.
    """
    if cache.table.where[x] != NOWHERE:
        unlink(cache.table, x)
        _forget(cache.reuse, x, cache.request[NOW])


def _let_go(cache: Cache, x: int) -> None:
    """Take a block that is no longer resident out of the leaves; its parent may become one."""
    blocks = cache.reuse.blocks
    parent, orphaned = blocks.parent[x], False
    if parent != NO_BLOCK:
        blocks.children[parent] -= 1
        orphaned = blocks.children[parent] == 0 and cache.table.where[parent] > RESIDENT
    if blocks.marks[x] & LEAF:
        if orphaned and put_in_place_of(cache.reuse, parent, x):
            return
        pull_leaf(cache.reuse, x)
    if orphaned:
        place_leaf(cache.reuse, parent)


def _forget(reuse: Reuse, x: int, now: float) -> None:
    """Know a block no longer: its wait is cut off."""
    if reuse.cohorts.started[reuse.blocks.cohort[x]] == reuse.reals[SERVED_AT]:
        for k in range(OPEN):
            reuse.scratch.open_cohort[k] = NO_COHORT
    if reuse.blocks.marks[x] & SAMPLED:
        end_wait(reuse.cells, reuse.cohorts.cell[reuse.blocks.cohort[x]], now - reuse.reals[BASE])
    part(reuse, x)
    leave_rival(reuse, x)
    reuse.blocks.marks[x] = 0
    reuse.blocks.parent[x] = NO_BLOCK
