"""ReuseAware: the leaf of least index leaves, the index being learned from every touch.

Known blocks are the resident ones and a memory of those that left, ten times the capacity. A block is a leaf
where none that came after it in a request is resident, so that no block outlives what is needed to reach it.
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
    leave,
    link,
    oldest_free,
    renew,
    unlink,
)
from kvtune_cache.cache import Cache
from kvtune_cache.reuse_aware.cells import bring_back, oldest_leaf, place_leaf, pull_leaf, push_leaf
from kvtune_cache.reuse_aware.classes import (
    ENDING_STEP,
    FEW_TOUCHES,
    TOUCH_STEP,
    UNKNOWN,
    request_class,
    told_class,
)
from kvtune_cache.reuse_aware.cohorts import cohort_of, end_wait, grow_older, part, settle
from kvtune_cache.reuse_aware.fit import fit
from kvtune_cache.reuse_aware.state import (
    ASIDE,
    BASE,
    BINS,
    CLASS,
    DEPARTURES,
    ENDS,
    FEW,
    LAST,
    LEAF,
    LENGTH_MEAN,
    NEXT_FIT,
    NO_COHORT,
    OPEN,
    REQUESTS,
    SAMPLED,
    SERVED_AT,
    THRESHOLD,
    USED,
    Reuse,
)
from kvtune_cache.signals import HINT, KIND, NOW, OUTPUT_TOKENS, POSITION

MEMORY: Final = 10
"""For how many departures a block is remembered after its own, in capacities."""

TURN: Final = 1 << 30
"""Departures are numbered up to here, then from 0 again."""

SAMPLES: Final = 32.0
"""Blocks of an average request that are learned from."""

WHOLE: Final = 1 << 24
FIT_EVERY: Final = 100
FIRST_FITS_EVERY: Final = 25
FIRST: Final = 1000
"""Requests between fits; those at the beginning, and how long that is."""

KEPT: Final = 0.5 ** (FIT_EVERY / 6000.0)
"""Share of what was learned that a fit leaves: half of it after 6,000 requests."""


def reuse_begin(cache: Cache, blocks: Integers, start: int, stop: int) -> None:
    """Note what is known of a request before any of its blocks is touched; learn from time to time."""
    reuse, now = cache.reuse, cache.request[NOW]
    numbers = reuse.numbers
    _close_request(reuse)
    reuse.reals[SERVED_AT] = now
    bring_back(reuse)
    grow_older(reuse, now)
    numbers[REQUESTS] += 1
    if numbers[REQUESTS] >= numbers[NEXT_FIT]:
        _learn(reuse, now)
    _sample(reuse, stop - start)
    known = _known(cache, blocks, start, stop)
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
    _touch(cache.reuse, x, cache.request[NOW], int(cache.request[POSITION]))
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
    _touch(reuse, x, cache.request[NOW], int(cache.request[POSITION]))
    _take_in(reuse, x)
    if reuse.blocks.children[x] == 0:
        push_leaf(reuse, x, reuse.cohorts.cell[reuse.blocks.cohort[x]])


def _take_in(reuse: Reuse, x: int) -> None:
    """Make a block that has become resident a child of its parent."""
    blocks = reuse.blocks
    parent = blocks.parent[x]
    if parent != NO_BLOCK:
        blocks.children[parent] += 1
        if blocks.marks[parent] & LEAF:
            pull_leaf(reuse, parent)


def reuse_evict(cache: Cache, capacity: int) -> int:
    """Let the leaf of least index go that is not pinned, and remember it; NO_BLOCK when all are pinned."""
    table, reuse = cache.table, cache.reuse
    x = oldest_leaf(reuse)
    while x != NO_BLOCK and table.pinned[x] == table.state[EPOCH]:
        pull_leaf(reuse, x)
        push_leaf(reuse, x, ASIDE)
        x = oldest_leaf(reuse)
    if x == NO_BLOCK:
        x = oldest_free(table, RECENT)
        if x == NO_BLOCK:
            return NO_BLOCK
    leave(table, x)
    _let_go(cache, x)
    link(table, x, GHOST_RECENT)
    reuse.blocks.newer[x] = reuse.numbers[DEPARTURES]
    reuse.numbers[DEPARTURES] = (reuse.numbers[DEPARTURES] + 1) % TURN
    reuse_trim(cache, capacity)
    return x


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
    _take_in(reuse, x)
    if reuse.blocks.children[x] == 0:
        place_leaf(reuse, x)


def reuse_trim(cache: Cache, capacity: int) -> None:
    """Forget the blocks since whose departure more others have left than the capacity allows."""
    blocks, before, departures = cache.reuse.blocks, cache.table.before, cache.reuse.numbers[DEPARTURES]
    end = len(cache.table.where) + GHOST_RECENT
    x = before[end]
    while x != end and (departures - blocks.newer[x]) % TURN >= MEMORY * capacity:
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
    if blocks.marks[x] & LEAF:
        pull_leaf(cache.reuse, x)
    parent = blocks.parent[x]
    if parent != NO_BLOCK:
        blocks.children[parent] -= 1
        if blocks.children[parent] == 0 and cache.table.where[parent] > RESIDENT:
            place_leaf(cache.reuse, parent)


def _forget(reuse: Reuse, x: int, now: float) -> None:
    """Know a block no longer: its wait is cut off."""
    if reuse.cohorts.started[reuse.blocks.cohort[x]] == reuse.reals[SERVED_AT]:
        for k in range(OPEN):
            reuse.scratch.open_cohort[k] = NO_COHORT
    if reuse.blocks.marks[x] & SAMPLED:
        end_wait(reuse.cells, reuse.cohorts.cell[reuse.blocks.cohort[x]], now - reuse.reals[BASE])
    part(reuse, x)
    reuse.blocks.marks[x] = 0
    reuse.blocks.parent[x] = NO_BLOCK


def _known(cache: Cache, blocks: Integers, start: int, stop: int) -> int:
    """Count the blocks of the prefix that are known, and note the parent of each block.

    A resident block keeps the parent under which it was counted, but for one without any.
    """
    reuse, where = cache.reuse.blocks, cache.table.where
    known, whole = 0, True
    for i in range(start, stop):
        x = blocks[i]
        if whole and reuse.cohort[x] != NO_COHORT:
            known += 1
        else:
            whole = False
        if where[x] <= RESIDENT:
            reuse.parent[x] = blocks[i - 1] if i > start else NO_BLOCK
        elif reuse.parent[x] == NO_BLOCK and i > start:
            _find_parent(cache.reuse, x, blocks[i - 1])
    return known


def _find_parent(reuse: Reuse, x: int, parent: int) -> None:
    """Put an adopted block under its parent."""
    blocks = reuse.blocks
    blocks.parent[x] = parent
    blocks.children[parent] += 1
    if blocks.marks[parent] & LEAF:
        pull_leaf(reuse, parent)


def _sample(reuse: Reuse, length: int) -> None:
    """Set the share of blocks to learn from by the mean length of requests."""
    reals, numbers = reuse.reals, reuse.numbers
    share = max(0.01, 1.0 / numbers[REQUESTS])
    reals[LENGTH_MEAN] += (length - reals[LENGTH_MEAN]) * share
    numbers[THRESHOLD] = int(min(1.0, SAMPLES / max(1.0, reals[LENGTH_MEAN])) * WHOLE)


def _sampled(threshold: int, x: int) -> bool:
    """Choose by a hash of the block's number, so that the same blocks are chosen every time."""
    if threshold >= WHOLE:
        return True
    h = x * 2654435761 & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x45D9F3B & 0xFFFFFFFF
    h ^= h >> 13
    return (h >> 8) < threshold


def _touch(reuse: Reuse, x: int, now: float, position: int) -> None:
    """Learn from a touch: a wait has ended, another begins in the class that the block has now."""
    blocks, cohorts, scratch, numbers = reuse.blocks, reuse.cohorts, reuse.scratch, reuse.numbers
    marks, c = blocks.marks[x], blocks.cohort[x]
    touches = 0
    if c != NO_COHORT:
        if marks & SAMPLED:
            cell = cohorts.cell[c]
            reuse.cells.events[cell] += 1.0
            end_wait(reuse.cells, cell, now - reuse.reals[BASE])
        part(reuse, x)
        touches = min(FEW_TOUCHES, (marks & FEW) + 1)
    level = 0 if touches == 0 else (1 if touches < FEW_TOUCHES else 2)
    ending = 1 if position == numbers[LAST] else 0
    k = level * 2 + ending
    c = scratch.open_cohort[k]
    if c == NO_COHORT:
        c = cohort_of(reuse, numbers[CLASS] + level * TOUCH_STEP + ending * ENDING_STEP, now)
        scratch.open_cohort[k] = c
        scratch.open_slot[k] = cohorts.cell[c] // BINS
    marks = touches | (marks & LEAF)
    if position >= numbers[LAST] - 1:
        marks |= ENDS
    if _sampled(numbers[THRESHOLD], x):
        marks |= SAMPLED
        cohorts.alive[c] += 1
        scratch.open_samples[k] += 1
    cohorts.members[c] += 1
    blocks.cohort[x] = c
    blocks.marks[x] = marks


def _close_request(reuse: Reuse) -> None:
    """Count the waits that the last request began, and how they clustered."""
    scratch, cells, classes = reuse.scratch, reuse.cells, reuse.classes
    for k in range(OPEN):
        scratch.open_cohort[k] = NO_COHORT
        samples = scratch.open_samples[k]
        if samples > 0:
            slot = scratch.open_slot[k]
            cells.waiting[slot * BINS] += samples
            cells.exposure[slot * BINS] -= samples * (reuse.reals[SERVED_AT] - reuse.reals[BASE])
            classes.cluster[slot] += samples
            classes.cluster_squares[slot] += samples * samples
            scratch.open_samples[k] = 0


def _learn(reuse: Reuse, now: float) -> None:
    """Let the past fade, and fit what remains."""
    numbers, cells, classes = reuse.numbers, reuse.cells, reuse.classes
    settle(reuse, now)
    for slot in range(numbers[USED]):
        classes.cluster[slot] *= KEPT
        classes.cluster_squares[slot] *= KEPT
        for cell in range(slot * BINS, slot * BINS + BINS):
            cells.events[cell] *= KEPT
            cells.exposure[cell] *= KEPT
    fit(reuse)
    numbers[NEXT_FIT] = numbers[REQUESTS] + (FIRST_FITS_EVERY if numbers[REQUESTS] < FIRST else FIT_EVERY)
