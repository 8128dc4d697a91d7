"""LRU of blocks by their ids, in an ordered dictionary: the shortest way for an engine's process.

Called by level.py where LRU takes in all that is asked for and nothing needs numbers of blocks. It goes by
whole requests: a request's own blocks end up behind all others, and they are never more than the capacity, so
that what must go is the oldest of the others, and may go after the touches. `keeping.touch` says what is
meant and gives the same.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from kvtune_cache.counts import COUNTS, LEFT, PASS_BLOCKS, PASSES, PRESSURE, RESIZE, TTL, WANTED, WRITTEN
from kvtune_cache.rules import Rules

FEW: Final = 1024
"""At least as many blocks that have left are remembered as are here, and so many more."""


class Recent:
    """The blocks that are here; `entries` is for others to read."""

    __slots__ = ("_left", "_remembers", "counts", "entries")

    def __init__(self, *, remembers: bool) -> None:
        """Start empty; one that remembers what has left counts what is wanted again."""
        self._remembers = remembers
        self._left: dict[int, int] = {}
        self.counts = [0] * COUNTS
        self.entries: OrderedDict[int, float] = OrderedDict()
        """By id the seconds of a block's last touch, the oldest first."""

    def touch(self, rules: Rules, blocks: Sequence[int], head: int, now_s: float) -> tuple[int, int, int]:
        """Touch or take in the blocks of a request, of which a tier that remembers has the first `head`.

        How many were taken in, the passes that needed, and the blocks that these have freed.
        """
        entries = self.entries
        own = blocks if len(blocks) <= rules.capacity else [*dict.fromkeys(blocks)][: rules.capacity]
        if self._left:
            self._count_wanted(own[head:])
        before = len(entries)
        move_to_end = entries.move_to_end
        for block in reversed(own):
            entries[block] = now_s
            move_to_end(block)
        held = len(entries)
        inserted, passes, freed = held - before, 0, 0
        self.counts[WRITTEN] += inserted
        overflow = held - rules.capacity
        if overflow > 0:
            if rules.pass_blocks > 0:
                passes = -(-overflow // rules.pass_blocks)
                overflow = freed = min(passes * rules.pass_blocks, held - len({*own}))
                self.counts[PASSES] += passes
                self.counts[PASS_BLOCKS] += freed
            self._let_go(overflow, PRESSURE)
        return inserted, passes, freed

    def expire(self, ttl_seconds: float, now_s: float) -> None:
        """Let all blocks go that were idle for longer."""
        freed = 0
        for last_s in self.entries.values():
            if now_s - last_s <= ttl_seconds:
                break
            freed += 1
        if freed > 0:
            self._let_go(freed, TTL)

    def shrink(self, capacity: int) -> None:
        """Let the oldest blocks go until the capacity holds the others."""
        if len(self.entries) > capacity:
            self._let_go(len(self.entries) - capacity, RESIZE)

    def left(self) -> dict[int, int]:
        """Give the reason for which blocks have left, of those that are remembered."""
        return self._left

    def take_over(self, blocks: Iterable[tuple[int, float]], left: dict[int, int], counts: list[int]) -> None:
        """Hold these blocks, the oldest first, remember why others have left, and count on."""
        self.entries.update(blocks)
        self._left, self.counts = left, counts

    def _count_wanted(self, blocks: Sequence[int]) -> None:
        """Count those that had left, and forget that they had."""
        left = self._left
        for block in left.keys() & blocks:
            self.counts[WANTED + left.pop(block)] += 1

    def _let_go(self, freed: int, reason: int) -> None:
        """Let the oldest blocks go."""
        self.counts[LEFT + reason] += freed
        popitem = self.entries.popitem
        if not self._remembers:
            for _ in range(freed):
                popitem(last=False)
            return
        left = self._left
        for _ in range(freed):
            left[popitem(last=False)[0]] = reason
        if len(left) > 2 * (len(self.entries) + FEW):
            self._left = dict(islice(left.items(), len(left) // 2, None))
