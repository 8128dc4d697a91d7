"""SIEVE: one queue in order of arrival and a hand that passes over what was asked for since it last came by.

Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, algorithm 1.
"""

from kvtune_cache.blocks import HAND, NO_BLOCK, RECENT, SIZES, BlockTable, is_pinned, let_go, link


def sieve_hit(table: BlockTable, x: int) -> None:
    """Mark x; it does not move."""
    table.touches[x] = 1


def sieve_miss(table: BlockTable, x: int, capacity: int) -> None:
    """Take x in as the newest, unmarked; leave it out where every resident block is pinned."""
    if table.state[SIZES + RECENT] >= capacity and sieve_evict(table) == NO_BLOCK:
        return
    table.touches[x] = 0
    link(table, x, RECENT)


def sieve_evict(table: BlockTable) -> int:
    """Let the first unmarked block go that the hand comes to; NO_BLOCK when all are pinned.

    The hand takes marks away, but not those of pinned blocks, which it passes over as they are.
    """
    before, state = table.before, table.state
    sentinel = len(table.where) + RECENT
    x = state[HAND]
    if x in (NO_BLOCK, sentinel):
        x = before[sentinel]
    for _ in range(2 * state[SIZES + RECENT] + 2):
        if x == sentinel:
            x = before[sentinel]
        elif is_pinned(table, x):
            x = before[x]
        elif table.touches[x] == 1:
            table.touches[x] = 0
            x = before[x]
        else:
            state[HAND] = before[x]
            let_go(table, x, RECENT)
            return x
    return NO_BLOCK
