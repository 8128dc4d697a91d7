"""Least recently used: the block that nobody has asked for longest leaves first."""

from kvtune_cache.blocks import (
    CURSOR,
    NO_BLOCK,
    RECENT,
    SIZES,
    BlockTable,
    is_pinned,
    let_go,
    link,
    renew,
)


def lru_hit(table: BlockTable, x: int) -> None:
    """Make x the newest. A search for victims that stands at it goes on behind it."""
    if table.state[CURSOR] == x:
        table.state[CURSOR] = table.before[x]
    renew(table, x, RECENT)


def lru_miss(table: BlockTable, x: int, capacity: int) -> None:
    """Take x in as the newest; leave it out where every resident block is pinned."""
    if table.state[SIZES + RECENT] >= capacity and lru_evict(table) == NO_BLOCK:
        return
    link(table, x, RECENT)


def lru_evict(table: BlockTable) -> int:
    """Let the oldest block go that is not pinned; NO_BLOCK when there is none.

    Within a request the search goes on where the last one ended: what lies behind it is pinned.
    """
    sentinel = len(table.where) + RECENT
    x = table.state[CURSOR]
    if x == NO_BLOCK:
        x = table.before[sentinel]
    while x != sentinel and is_pinned(table, x):
        x = table.before[x]
    if x == sentinel:
        table.state[CURSOR] = sentinel
        return NO_BLOCK
    table.state[CURSOR] = table.before[x]
    let_go(table, x, RECENT)
    return x
