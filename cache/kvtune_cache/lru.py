"""A block table in least-recently-used order, of fixed capacity: the device tier of an engine.

Called by tiers.py. Exact: a request's own blocks are pinned while it is processed, touched or inserted tail
first (so tails leave before heads, vLLM's order), and of a request longer than the table only the head that
fits is kept.

Why evicting after the touches is the same as evicting at each insert with pinned blocks skipped: own blocks
are moved behind all others, their number is at most the capacity, so popping the overflow from the front
takes exactly the least recently used blocks of others, in the same order.
"""

from collections import OrderedDict
from collections.abc import Sequence


class LruTable:
    """Hold up to `capacity_blocks` block ids, the least recently used first."""

    __slots__ = ("_capacity", "_entries")

    def __init__(self, capacity_blocks: int) -> None:
        """Start empty; raises ValueError for a negative capacity (0 holds nothing)."""
        if capacity_blocks < 0:
            raise ValueError(f"capacity_blocks: {capacity_blocks} is less than 0")
        self._capacity = capacity_blocks
        self._entries: OrderedDict[int, None] = OrderedDict()

    @property
    def capacity_blocks(self) -> int:
        """Say how many blocks fit."""
        return self._capacity

    @property
    def entries(self) -> OrderedDict[int, None]:
        """Give the table itself, oldest first, for membership tests; callers do not write to it."""
        return self._entries

    def __len__(self) -> int:
        """Count the resident blocks."""
        return len(self._entries)

    def touch(self, blocks: Sequence[int]) -> None:
        """Touch or insert the blocks of one request (head first in the argument), tail first."""
        entries = self._entries
        capacity = self._capacity
        move_to_end = entries.move_to_end
        for block in reversed(blocks if len(blocks) <= capacity else blocks[:capacity]):
            if block in entries:
                move_to_end(block)
            else:
                entries[block] = None
        for _ in range(len(entries) - capacity):
            entries.popitem(last=False)
