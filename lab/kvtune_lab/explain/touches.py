"""The touches of a trace: the class of each, and how long until its block was touched again.

Called by tally.py. A touch is of the class that a policy can know at that moment without labels (cache.md,
"G5"): how often the block was touched before; the gap since the last known block of the request was touched,
where that block was at the end of its own request; the request's new blocks; its answer; whether the block is
the request's last one.
"""

from collections.abc import MutableSequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.blocks import Integers
from kvtune_cache.requests import Requests
from kvtune_cache.signals import Floats
from kvtune_lab.capacity.stack import PLAIN_REFERENCES_MAX, columns

SHAPE: Final = (3, 3, 3, 3, 2)
CLASSES: Final = 162
"""Levels of those five in their order, and all classes."""


class Room(NamedTuple):
    """What the pass needs, of n blocks: lists or arrays."""

    latest: MutableSequence[int]
    """n indices of references, at first -1: the latest of each block."""

    since: Floats
    """n times of those."""

    touched: Integers
    """n counts, at first 0: earlier touches, at most 255."""

    from_end: Integers
    """n places of blocks in their latest request, counted from its end."""


class Touches(NamedTuple):
    """A number of each reference."""

    classes: MutableSequence[int]
    waits: Floats
    """Seconds until the block is touched again, at first infinite: never."""


def classify(requests: Requests, room: Room, touches: Touches) -> None:
    """Fill in `touches`."""
    starts, blocks = requests.starts, requests.blocks
    for r in range(len(starts) - 1):
        start, stop, now = starts[r], starts[r + 1], requests.times[r]
        known = start
        while known < stop and room.latest[blocks[known]] >= 0:
            known += 1
        gap = 0
        if known > start and room.from_end[blocks[known - 1]] <= 1:
            gap = 1 if now - room.since[blocks[known - 1]] < 60 else 2
        new = 0 if stop - known < 2 else (1 if stop - known < 8 else 2)
        tokens = requests.outputs[r]
        answer = 0 if tokens < 100 else (1 if tokens < 350 else 2)
        for i in range(start, stop):
            x = blocks[i]
            if room.latest[x] >= 0:
                touches.waits[room.latest[x]] = now - room.since[x]
                room.touched[x] = min(255, room.touched[x] + 1)
            before = 0 if room.touched[x] < 1 else (1 if room.touched[x] < 4 else 2)
            last = 1 if i + 1 == stop else 0
            touches.classes[i] = (((before * 3 + gap) * 3 + new) * 3 + answer) * 2 + last
            room.latest[x] = i
            room.since[x] = now
            room.from_end[x] = stop - 1 - i


def classified(requests: Requests) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Tell the class and the wait of each reference, in their order."""
    distinct, references = int(np.max(requests.blocks)) + 1, len(requests.blocks)
    if references <= PLAIN_REFERENCES_MAX:
        touches = Touches([0] * references, [float("inf")] * references)
        room = Room([-1] * distinct, [0.0] * distinct, [0] * distinct, [0] * distinct)
        classify(requests, room, touches)
    else:
        from kvtune_lab.compiled import compiled  # loads numba, which small traces can do without

        arrays: list[Any] = [np.zeros(references, np.uint8), np.full(references, np.inf)]
        touches = Touches(*arrays)
        arrays = [np.full(distinct, -1, np.int64), np.zeros(distinct), *np.zeros((2, distinct), np.int32)]
        compiled(classify)(columns(requests), Room(*arrays), touches)
    return np.asarray(touches.classes, np.uint8), np.asarray(touches.waits, np.float64)
