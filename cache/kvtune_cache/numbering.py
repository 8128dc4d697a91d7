"""Dense numbers for endless block ids: a number is used again when no tier holds or remembers its block.

Called by tiers.py. A hand goes round the numbers as a clock's does, some at once, and frees those that nobody
needs; where it finds fewer than half of them free, the caller makes room for twice as many. So there are at
most about four numbers for each block that is held or remembered, and a block that has left keeps its number,
and what is counted by it, until the hand comes round. How often it was asked for is known longer (asked.py).
"""

from collections.abc import Sequence
from typing import Final

from kvtune_cache.blocks import NO_BLOCK, NOWHERE, Bytes

STRIDE: Final = 64
"""Numbers that the hand looks at at once."""


class Numbering:
    """Map ids to numbers below `room`."""

    __slots__ = ("_found", "_free", "_hand", "ids", "owners", "room")

    def __init__(self, room: int) -> None:
        """Start with no number in use; raises ValueError for no room."""
        if room < 1:
            raise ValueError(f"room: {room} is less than 1")
        self.room = room
        self.ids: dict[int, int] = {}
        """The number of each id that has one; callers read it."""
        self.owners: list[int] = []
        """The id of each number that was ever given."""
        self._free: list[int] = []
        self._hand = 0
        self._found = room

    def give(self, blocks: Sequence[int], numbers: list[int], first: int) -> int:
        """Fill in the numbers that are NO_BLOCK, the `first` of them and others behind it.

        How many more must be freed before, where nothing is done.
        """
        new: Sequence[int] = blocks[first:]
        plain = numbers[-1] == NO_BLOCK and numbers.count(NO_BLOCK) == len(new) == len({*new})
        if not plain:
            new = list(dict.fromkeys(b for b, x in zip(blocks, numbers, strict=True) if x == NO_BLOCK))
        ids, owners, free, count = self.ids, self.owners, self._free, len(new)
        unused = len(owners)
        if count <= self.room - unused:
            given = list(range(unused, unused + count))
            owners += new
        elif count <= len(free):
            given = free[-count:]
            del free[-count:]
        else:
            return count - len(free)
        for block, x in zip(new, given, strict=True):
            owners[x] = block
            ids[block] = x
        numbers[first:] = given if plain else map(ids.__getitem__, blocks[first:])
        return 0

    def free(self, count: int, where: Sequence[Bytes], used: set[int]) -> list[int]:
        """Free this many numbers or some more, which no tier holds or remembers and this request does not
        use; none where there must be more room before."""
        ids, owners, room = self.ids, self.owners, self.room
        self._free += range(len(owners), room)
        owners += [NO_BLOCK] * (room - len(owners))
        freed: list[int] = []
        kept = used.union(self._free)
        while len(freed) < count:
            if self._hand == room:
                if 2 * self._found < room:
                    break
                self._hand = self._found = 0
                kept.update(freed)
            hand = self._hand
            self._hand = min(hand + STRIDE, room)
            found = [x for x in range(hand, self._hand) if x not in kept]
            for places in where:
                found = [x for x in found if places[x] == NOWHERE]
            self._found += len(found)
            for x in found:
                del ids[owners[x]]
            freed += found
        self._free += freed
        return freed

    def grow(self, room: int) -> None:
        """Allow for more numbers; the hand begins its next round after the new ones are used."""
        self.room = room
        self._hand, self._found = 0, room
