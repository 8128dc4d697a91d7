"""S3-FIFO: a small queue for what is new, a main one for what came back, a memory of what left the small one.

Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1, with a small queue of
a tenth of the capacity, a memory of nine tenths, and two touches to reach the main queue. As in libCacheSim,
the main queue takes new blocks while the cache fills for the first time and the small queue is full.
"""

from kvtune_cache.blocks import (
    BEGAN,
    FREQUENT,
    GHOST_RECENT,
    NO_BLOCK,
    RECENT,
    SIZES,
    BlockTable,
    is_pinned,
    let_go,
    link,
    move,
    note_gone,
    renew,
    resident,
    take_out,
)

MOST_TOUCHES = 3
TOUCHES_TO_STAY = 2


def s3fifo_hit(table: BlockTable, x: int) -> None:
    """Count one touch of x, at most MOST_TOUCHES; it does not move."""
    if table.touches[x] < MOST_TOUCHES:
        table.touches[x] += 1


def s3fifo_miss(table: BlockTable, x: int, capacity: int) -> None:
    """Take x into the main queue where it is remembered, else into the small one; out where all is pinned."""
    state = table.state
    known = table.where[x] == GHOST_RECENT + 1
    if known:
        take_out(table, x, GHOST_RECENT)
    while resident(table) >= capacity:
        if s3fifo_evict(table, capacity) == NO_BLOCK:
            return
    table.touches[x] = 0
    filling = state[BEGAN] == 0 and state[SIZES + RECENT] >= max(1, capacity // 10)
    link(table, x, FREQUENT if known or filling else RECENT)


def s3fifo_evict(table: BlockTable, capacity: int) -> int:
    """Let one block go; NO_BLOCK when all are pinned."""
    state = table.state
    state[BEGAN] = 1
    x = NO_BLOCK
    if state[SIZES + FREQUENT] > capacity - max(1, capacity // 10) or state[SIZES + RECENT] == 0:
        x = _from_main(table)
    if x == NO_BLOCK:
        x = _from_small(table, capacity)
    if x == NO_BLOCK:
        x = _from_main(table)  # what the small queue has moved there meanwhile
    return x


def s3fifo_trim(table: BlockTable, capacity: int) -> None:
    """Forget what a smaller capacity does not remember."""
    while table.state[SIZES + GHOST_RECENT] > capacity * 9 // 10:
        take_out(table, table.before[len(table.where) + GHOST_RECENT], GHOST_RECENT)


def _from_small(table: BlockTable, capacity: int) -> int:
    """Let the oldest go that was not touched enough, and remember it; the others move to the main queue."""
    state = table.state
    sentinel = len(table.where) + RECENT
    spared = 0
    while spared < state[SIZES + RECENT]:
        x = table.before[sentinel]
        if is_pinned(table, x):
            renew(table, x, RECENT)
            spared += 1
        elif table.touches[x] >= TOUCHES_TO_STAY:
            table.touches[x] = 0
            move(table, x, RECENT, FREQUENT)
        else:
            move(table, x, RECENT, GHOST_RECENT)
            note_gone(table, x)
            s3fifo_trim(table, capacity)
            return x
    return NO_BLOCK


def _from_main(table: BlockTable) -> int:
    """Let the oldest go that has no touch left; the others lose one and become the newest."""
    state = table.state
    sentinel = len(table.where) + FREQUENT
    spared = 0
    while spared < state[SIZES + FREQUENT]:
        x = table.before[sentinel]
        if is_pinned(table, x):
            renew(table, x, FREQUENT)
            spared += 1
        elif table.touches[x] > 0:
            table.touches[x] -= 1
            renew(table, x, FREQUENT)
            spared = 0
        else:
            let_go(table, x, FREQUENT)
            return x
    return NO_BLOCK
