"""Which class each request (or block) belongs to: its type, its turn, both, or the part of the prompt.

The study behind workload-aware eviction sorts by type and turn (USENIX ATC'25); a trace is sorted by what it
tells of.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_lab.readers.loaded import Loaded
from kvtune_lab.stats.turns import Conversations

TURNS = ("turn 1", "turn 2", "turn 3", "turn 4-5", "turn 6+")
_FIRST_OF_BUCKET = (1, 2, 3, 4, 6)
BRANCH = "branch"
UNKNOWN_CLASS = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Names of classes, and the class of each request, or of each distinct block."""

    names: tuple[str, ...]
    of_request: NDArray[np.uint8] | None = None
    of_block: NDArray[np.uint8] | None = None

    def of_references(self, loaded: Loaded) -> NDArray[np.uint8]:
        """The class of each reference."""
        if self.of_block is not None:
            found: NDArray[np.uint8] = self.of_block[np.asarray(loaded.requests.blocks)]
        else:
            assert self.of_request is not None
            found = np.repeat(self.of_request, np.diff(np.asarray(loaded.requests.starts)))
        return found


def classes_of(loaded: Loaded, talks: Conversations) -> Classes:
    """Sort by part of the prompt, by type and turn, by type, or by turn: the first that is known."""
    if loaded.parts is not None:
        return Classes(names=loaded.part_names, of_block=loaded.parts)
    if not loaded.kind_names:
        names, of_request = _by_turn(talks)
        return _used(names, of_request)
    names, of_request = (UNKNOWN_CLASS, *loaded.kind_names), np.asarray(loaded.requests.kinds, np.int64)
    if loaded.turns is not None:
        turn_names, turn = _by_turn(talks)
        of_request = of_request * len(turn_names) + turn
        names = tuple(f"{kind}, {name}" for kind in names for name in turn_names)
    return _used(names, of_request)


def _by_turn(talks: Conversations) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    bucket = np.searchsorted(_FIRST_OF_BUCKET, talks.turns, "right") - 1
    bucket = np.where(talks.turns < 1, len(TURNS) + 1, bucket)
    return (*TURNS, BRANCH, UNKNOWN_CLASS), np.where(talks.branches, len(TURNS), bucket)


def _used(names: tuple[str, ...], of_request: NDArray[np.int64]) -> Classes:
    """Leave out classes without any request."""
    there, dense = np.unique(of_request, return_inverse=True)
    return Classes(names=tuple(names[k] for k in there), of_request=dense.astype(np.uint8))
