"""How often blocks were asked for whose numbers stand for others by now, by their ids, in bounded memory.

Called by level.py, so that a store threshold counts a block's askings over as many others as are remembered,
whatever the numbers below (numbering.py) are used for meanwhile.
"""

from collections.abc import Iterable
from typing import Final

IDS_MAX: Final = 1 << 17
"""Ids of one generation: of twice as many at most some are remembered, of so many all (some 13 MB)."""


class Asked:
    """Counts by id, in two generations: when the younger is full, the older is forgotten."""

    __slots__ = ("_ids_max", "_older", "_recent")

    def __init__(self, ids_max: int = IDS_MAX) -> None:
        """Start empty; raises ValueError for no room."""
        if ids_max < 1:
            raise ValueError(f"ids_max: {ids_max} is less than 1")
        self._ids_max = ids_max
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def __len__(self) -> int:
        """Count what is remembered."""
        return len(self._recent) + len(self._older)

    def note(self, counts: Iterable[tuple[int, int]]) -> None:
        """Remember how often ids were asked for, where it was at all."""
        for block, count in counts:
            if count > 0:
                if len(self._recent) == self._ids_max:
                    self._older, self._recent = self._recent, {}
                self._recent[block] = count

    def take(self, block: int) -> int:
        """How often an id was asked for that is no longer to be remembered here; 0 for one that is not."""
        return self._recent.pop(block, 0) or self._older.pop(block, 0)
