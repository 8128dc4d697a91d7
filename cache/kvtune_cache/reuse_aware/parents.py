"""Which block comes before which: a leaf has no resident block that came after it in a request."""

from typing import Final

from kvtune_cache.blocks import NO_BLOCK, RESIDENT, Integers
from kvtune_cache.cache import Cache
from kvtune_cache.reuse_aware.cells import pull_leaf
from kvtune_cache.reuse_aware.rival import compare
from kvtune_cache.reuse_aware.state import IN_RIVAL, LEAF, NO_COHORT, Blocks, Reuse

STEPS_UP: Final = 4096
"""How far to look for a block among those above another one."""


def take_in(reuse: Reuse, x: int) -> None:
    """Make a block that has become resident a child of its parent."""
    blocks = reuse.blocks
    parent = blocks.parent[x]
    if parent != NO_BLOCK:
        blocks.children[parent] += 1
        if blocks.marks[parent] & LEAF:
            pull_leaf(reuse, parent)


def known_prefix(cache: Cache, blocks: Integers, start: int, stop: int) -> int:
    """Count the blocks of the prefix that are known, and note the parent of each block and how LRU would do.

    A resident block keeps the parent under which it was counted, but for one without any. Nothing comes under
    what it leads to: requests that are no chains would make blocks that are never leaves.
    """
    reuse, where = cache.reuse.blocks, cache.table.where
    known, whole, hits, rivals = 0, True, 0, 0
    for i in range(start, stop):
        x = blocks[i]
        if hits == i - start and where[x] > RESIDENT:
            hits += 1
        if rivals == i - start and reuse.marks[x] & IN_RIVAL:
            rivals += 1
        if whole and reuse.cohort[x] != NO_COHORT:
            known += 1
        else:
            whole = False
        if where[x] > RESIDENT and reuse.parent[x] != NO_BLOCK:
            continue
        follows = i > start and not leads_to(reuse, x, blocks[i - 1])
        if where[x] <= RESIDENT:
            reuse.parent[x] = blocks[i - 1] if follows else NO_BLOCK
        elif follows:
            _find_parent(cache.reuse, x, blocks[i - 1])
    compare(cache.reuse, hits - rivals)
    return known


def leads_to(blocks: Blocks, x: int, y: int) -> bool:
    """Say whether x has children and y is below it, or too far below anything to say."""
    if blocks.children[x] == 0:
        return False
    for _ in range(STEPS_UP):
        if y == x:
            return True
        if y == NO_BLOCK:
            return False
        y = blocks.parent[y]
    return True


def _find_parent(reuse: Reuse, x: int, parent: int) -> None:
    """Put an adopted block under its parent."""
    reuse.blocks.parent[x] = parent
    take_in(reuse, x)
