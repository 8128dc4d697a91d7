"""Hit rates of LRU at every capacity at once, from one pass over a trace: stack distances.

LRU keeps the blocks that were touched last, so a block is resident with c blocks of room exactly where fewer
than c others were touched since (Mattson et al., IBM Systems Journal 9(2), 1970). This carries over to
requests that hit their longest resident prefix and are touched tail first with their own blocks pinned:

- Pinning moves no block: after a request its blocks are the newest, and of the others the newest have stayed,
  in both ways of serving. Of a request longer than the room the head stays, as it is touched last.
- Blocks are prefix-chained, so whoever touches a block touches its ancestors after it: distances grow along a
  request, and a block is hit exactly where its own distance is at most c.
- The blocks whose last request was y are a run of its positions. Their distances are the blocks of requests
  after y, counted in a Fenwick tree over requests, plus their position: O(blocks + runs log requests).
"""

from bisect import bisect_right
from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.blocks import Integers
from kvtune_cache.requests import Requests
from kvtune_lab.readers.loaded import tokens_when_warm

PLAIN_REFERENCES_MAX: Final = 2_000_000
"""Fewer block references are counted sooner than a compiled function has been loaded (cache.md, layout)."""


class NotChained(ValueError):
    """Tell the user that a block follows different blocks, so that no prefix can be hit."""


class Room(NamedTuple):
    """What the pass needs, of n blocks and m requests: lists or arrays of integers."""

    last: Integers
    """n request numbers, at first -1: the latest that a block belongs to."""

    parent: Integers
    """n block numbers, at first any: what a block follows; -1 for the first of a request."""

    tree: Integers
    """m + 1 numbers, at first 0: a Fenwick tree of the blocks whose latest request is number i - 1."""

    blocks: MutableSequence[int]
    """n + 1 counts, at first 0: references by their distance, those at 0 unused."""

    tokens: MutableSequence[int]
    """The same of tokens."""

    half_blocks: MutableSequence[int]
    """The same of the requests of the last half."""

    half_tokens: MutableSequence[int]


def measure(requests: Requests, room: Room) -> int:
    """Count the distances of all references into `room`; the index of one that breaks its chain, else -1.

    The distance of a reference is the least capacity, in blocks, at which LRU hits it.
    """
    starts, blocks, last, parent, tree = requests.starts, requests.blocks, room.last, room.parent, room.tree
    count = len(starts) - 1
    half, seen = count // 2, 0
    for r in range(count):
        start, stop = starts[r], starts[r + 1]
        before = -1
        at = start
        while at < stop and last[blocks[at]] >= 0:
            y = last[blocks[at]]
            newer, i = seen - (at - start), y + 1
            while i > 0:
                newer -= tree[i]
                i -= i & -i
            first = at
            while at < stop and last[blocks[at]] == y:
                x = blocks[at]
                if parent[x] != before:
                    return at
                distance = newer + at - start + 1
                room.blocks[distance] += 1
                room.tokens[distance] += requests.tokens[at]
                if r >= half:
                    room.half_blocks[distance] += 1
                    room.half_tokens[distance] += requests.tokens[at]
                last[x] = r
                before = x
                at += 1
            i = y + 1
            while i <= count:
                tree[i] -= at - first
                i += i & -i
        seen += stop - at
        while at < stop:
            x = blocks[at]
            if last[x] >= 0:
                return at
            last[x] = r
            parent[x] = before
            before = x
            at += 1
        i = r + 1
        while i <= count:
            tree[i] += stop - start
            i += i & -i
    return -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LruCurve:
    """Hit rates of LRU, as shares from 0 to 1: element c of each array is that of a capacity of c blocks.

    Arrays of float64 of one more than the trace's distinct blocks; more room hits as much as the last.
    """

    tokens: NDArray[np.float64]
    blocks: NDArray[np.float64]
    tokens_last_half: NDArray[np.float64]
    blocks_last_half: NDArray[np.float64]

    @property
    def distinct_blocks(self) -> int:
        """The capacity from which on nothing is gained."""
        return len(self.tokens) - 1

    def rate(self, capacity_blocks: int) -> float:
        """Hit rate of tokens in the last half of the requests."""
        return float(self.tokens_last_half[min(capacity_blocks, self.distinct_blocks)])


def lru_curve(requests: Requests) -> LruCurve:
    """Measure a trace; raises NotChained, ValueError for a trace without blocks."""
    if not len(requests.blocks):
        raise ValueError("trace: holds no block")
    distinct, count = int(np.max(requests.blocks)) + 1, len(requests.starts) - 1
    if len(requests.blocks) <= PLAIN_REFERENCES_MAX:
        room = plain_room(distinct, count)
        broken = measure(requests, room)
    else:
        from kvtune_lab.compiled import compiled  # loads numba, which small traces can do without

        room = array_room(distinct, count)
        broken = compiled(measure)(columns(requests), room)
    if broken >= 0:
        raise NotChained(_why_broken(requests, broken))
    totals = [np.cumsum(np.asarray(part, np.float64)) for part in room[3:]]
    half_start = requests.starts[count // 2]
    tokens = np.asarray(requests.tokens)
    if not tokens_when_warm(requests):
        raise ValueError("trace: its last half holds no token")
    return LruCurve(
        blocks=totals[0] / len(requests.blocks),
        tokens=totals[1] / tokens.sum(dtype=np.int64),
        blocks_last_half=totals[2] / (len(requests.blocks) - half_start),
        tokens_last_half=totals[3] / tokens[half_start:].sum(dtype=np.int64),
    )


def columns(requests: Requests) -> Requests:
    """The same requests as numpy arrays, for compiled functions; arrays of any kind are not copied."""
    parts: list[Any] = [np.asarray(part) for part in requests]
    return Requests(*parts)


def plain_room(distinct: int, count: int) -> Room:
    """Room of lists for a pass over `count` requests of `distinct` blocks."""
    counts = ([0] * (distinct + 1) for _ in range(4))
    return Room([-1] * distinct, [-1] * distinct, [0] * (count + 1), *counts)


def array_room(distinct: int, count: int) -> Room:
    """The same of numpy arrays, for the compiled pass."""
    parts: list[Any] = [np.full(distinct, -1, np.int32), np.full(distinct, -1, np.int32)]
    parts.append(np.zeros(count + 1, np.int32))
    parts += [np.zeros(distinct + 1, np.int64) for _ in range(4)]
    return Room(*parts)


def _why_broken(requests: Requests, at: int) -> str:
    """Say which reference does not follow what it followed before."""
    r = bisect_right(requests.starts, at) - 1
    start, x = requests.starts[r], requests.blocks[at]
    before = "nothing" if at == start else f"block {requests.blocks[at - 1]}"
    where = f"request {r + 1}: block {x} (position {at - start + 1})"
    return f"{where} follows {before} here and another elsewhere: not prefix-chained"
