"""Dense numbers for endless block ids: a number is used again when no tier holds or remembers its block.

Called by tiers.py. A hand goes round the numbers as a clock's does and frees those that nobody needs; where
it finds fewer than half of them free, the caller makes room for twice as many. So there are at most about
four numbers for each block that is held or remembered, and a block that has left keeps its number, and what
is counted by it, until the hand comes round.
"""

from collections.abc import Callable, Sequence


class Numbering:
    """Map ids to numbers below `room`."""

    __slots__ = ("_freed", "_hand", "ids", "owners", "room")

    def __init__(self, room: int) -> None:
        """Start with no number in use; raises ValueError for no room."""
        if room < 1:
            raise ValueError(f"room: {room} is less than 1")
        self.room = room
        self.ids: dict[int, int] = {}
        """The number of each id that has one; callers read it."""
        self.owners: list[int] = []
        """The id of each number that was ever given."""
        self._hand = 0
        self._freed = room

    def give(
        self, blocks: Sequence[int], numbers: list[int], free: Callable[[int], bool], used: set[int]
    ) -> bool:
        """Fill in the numbers that are below 0, new or free ones, and add them to `used`.

        False where `room` must grow first: then some are filled in already.
        """
        ids, owners = self.ids, self.owners
        for i, block in enumerate(blocks):
            if numbers[i] >= 0:
                continue
            x = ids.get(block, -1)
            if x < 0 and len(owners) < self.room:
                x = len(owners)
                owners.append(block)
            elif x < 0:
                x = self._next_free(free)
                if x < 0:
                    return False
                del ids[owners[x]]
                owners[x] = block
            ids[block] = numbers[i] = x
            used.add(x)
        return True

    def _next_free(self, free: Callable[[int], bool]) -> int:
        """Move the hand to the next free number and beyond; -1 where too few were free on the last round."""
        x = self._hand
        while True:
            if x == self.room:
                if 2 * self._freed < self.room:
                    return -1
                x = self._freed = 0
            if free(x):
                self._hand = x + 1
                self._freed += 1
                return x
            x += 1

    def grow(self, room: int) -> None:
        """Allow for more numbers; the hand begins its next round after the new ones are used."""
        self.room = room
        self._hand, self._freed = 0, room
