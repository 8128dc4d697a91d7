"""LRU by whole requests and by ids, on lists: an engine's process touches and frees blocks by the request.

Called by tiers.py where nothing needs the order of single blocks, nor numbers for them. The newest blocks are
those of the last request, so that an order of requests does for one of blocks: a block has the number of the
last request that it belongs to, a request the count of blocks that are its own still. What is too old or too
much leaves by the request, the oldest first, each from its tail. `keeping.touch` gives the same by the block.
"""

from collections.abc import Sequence
from itertools import repeat
from math import inf
from typing import Final

from kvtune_cache.counts import (
    COUNTS,
    LEFT,
    PASS_BLOCKS,
    PASSES,
    PRESSURE,
    REASONS,
    RESIZE,
    TTL,
    WANTED,
    WRITTEN,
)
from kvtune_cache.rules import Rules
from kvtune_cache.stack import ON_DEVICE, ON_HOST

SPARSE: Final = 4
"""A request that has lost more than three of four blocks is written anew without them."""

FEW: Final = 1024
"""As many blocks that have left are remembered as are here, and so many more."""

NEVER: Final = 0

_NEVER = repeat(NEVER)


class Touched:
    """One request: its blocks, head first, of which `live` are its own still, and when it came."""

    __slots__ = ("blocks", "live", "seconds")

    def __init__(self, blocks: list[int], seconds: float) -> None:
        """All of them are its own."""
        self.blocks = blocks
        self.live = len(blocks)
        self.seconds = seconds


class Runs:
    """The blocks that are here, by requests."""

    __slots__ = ("_oldest", "_remembers", "_request", "counts", "places", "requests", "size")

    def __init__(self, *, remembers: bool) -> None:
        """Start empty; one that remembers what has left counts what is wanted again."""
        self._remembers = remembers
        self.counts = [0] * COUNTS
        self.places: dict[int, int] = {}
        """By id the number of a block's last request, above 0; below 0 minus the reason for which it has
        left, REASONS more after a while."""
        self.requests: dict[int, Touched] = {}
        """By their numbers, from the oldest."""
        self.size = 0
        self._request = self._oldest = 1

    def look(self, blocks: Sequence[int]) -> list[int]:
        """Give the places of blocks: above 0 where they are here."""
        return [*map(self.places.get, blocks, _NEVER)]

    def touch(self, rules: Rules, blocks: Sequence[int], found: list[int], now_s: float) -> None:
        """Touch or take in the blocks of a request, which `look` has found so; each once."""
        request, places = self._request, self.places
        fresh = dict.fromkeys(blocks, request)
        own = list(fresh)
        if len(own) > rules.capacity or len(own) < len(blocks):
            own = own[: rules.capacity]
            fresh = dict.fromkeys(own, request)
            found = self.look(own)
        if not own:
            return
        places.update(fresh)
        self.requests[request] = Touched(own, now_s)
        self._request = request + 1
        inserted = self._take(found)
        if inserted > 0:
            self.size += inserted
            self.counts[WRITTEN] += inserted
            if self.size > rules.capacity:
                self._relieve(rules, len(own))

    def expire(self, ttl_seconds: float, now_s: float) -> None:
        """Let all blocks go that were idle for longer."""
        while self.size > 0 and ttl_seconds < inf:
            oldest = self._first()
            if not now_s - oldest.seconds > ttl_seconds:
                return
            self._let_go(oldest.live, TTL)

    def shrink(self, capacity: int) -> None:
        """Let the oldest blocks go until the capacity holds the others."""
        if self.size > capacity:
            self._let_go(self.size - capacity, RESIZE)

    def append(self, blocks: list[int], seconds: float) -> None:
        """Take over blocks that were touched at once, after all that are here, head first."""
        self.places.update(dict.fromkeys(blocks, self._request))
        self.requests[self._request] = Touched(blocks, seconds)
        self._request += 1
        self.size += len(blocks)

    def by_last_touch(self) -> list[tuple[int, float]]:
        """List the blocks and the seconds of their last touch, the oldest first."""
        places = self.places
        return [
            (block, touched.seconds)
            for request, touched in self.requests.items()
            for block in reversed(touched.blocks)
            if places.get(block) == request
        ]

    def left(self) -> dict[int, int]:
        """Give the reason for which blocks have left, of those that are remembered."""
        return {block: reason_of(place) for block, place in self.places.items() if place < 0}

    def remember(self, left: dict[int, int]) -> None:
        """Take over what has left."""
        self.places.update({block: -reason for block, reason in left.items()})

    def _take(self, found: list[int]) -> int:
        """Take blocks from the requests before; how many were not here."""
        inserted, count, before = 0, 0, found[0]
        for place in found:
            if place != before:
                inserted += self._take_run(before, count)
                before, count = place, 0
            count += 1
        return inserted + self._take_run(before, count)

    def _take_run(self, before: int, count: int) -> int:
        if before > 0:
            touched = self.requests[before]
            touched.live -= count
            if touched.live == 0:
                del self.requests[before]
            elif touched.live * SPARSE < len(touched.blocks):
                places = self.places
                touched.blocks = [block for block in touched.blocks if places.get(block) == before]
            return 0
        if before < 0:
            self.counts[WANTED + reason_of(before)] += count
        return count

    def _relieve(self, rules: Rules, own: int) -> None:
        """Let go what is too much, in passes where there are any: at most the blocks of others."""
        freed = self.size - rules.capacity
        if rules.pass_blocks > 0:
            passes = -(-freed // rules.pass_blocks)
            freed = min(passes * rules.pass_blocks, self.size - own)
            self.counts[PASSES] += passes
            self.counts[PASS_BLOCKS] += freed
        self._let_go(freed, PRESSURE)

    def _first(self) -> Touched:
        """Find the oldest request; there is one."""
        requests, oldest = self.requests, self._oldest
        while oldest not in requests:
            oldest += 1
        self._oldest = oldest
        return requests[oldest]

    def _let_go(self, freed: int, reason: int) -> None:
        """Let the oldest blocks go."""
        self.size -= freed
        self.counts[LEFT + reason] += freed
        while freed > 0:
            touched = self._first()
            if touched.live <= freed:
                del self.requests[self._oldest]
                freed -= touched.live
                gone = touched.blocks
                if touched.live < len(gone):
                    gone = [block for block in gone if self.places.get(block) == self._oldest]
            else:
                gone, freed = self._cut(touched, freed), 0
            self._drop(gone, reason)

    def _cut(self, touched: Touched, freed: int) -> list[int]:
        """Take the last blocks off the oldest request, which has more."""
        own, cut = touched.blocks, []
        if touched.live == len(own):
            cut = own[-freed:]
            del own[-freed:]
        while len(cut) < freed:
            block = own.pop()
            if self.places.get(block) == self._oldest:
                cut.append(block)
        touched.live -= freed
        return cut

    def _drop(self, gone: list[int], reason: int) -> None:
        """Remember why these blocks have left, or nothing of them."""
        places = self.places
        if not self._remembers:
            for block in gone:
                del places[block]
            return
        for block in gone:
            places[block] = -reason
        if len(places) > 2 * self.size + FEW:
            self.places = {
                block: place if place > 0 else place - REASONS
                for block, place in places.items()
                if place >= -REASONS
            }


def reason_of(place: int) -> int:
    """Give the reason for which a block has left."""
    return -place if place >= -REASONS else -place - REASONS


def places_of(above: list[int], below: list[int]) -> list[int]:
    """Say where the hits of a request are, of whose blocks this was found on the device and on the host."""
    places: list[int] = []
    for high, low in zip(above, below, strict=True):
        if high > 0:
            places.append(ON_DEVICE)
        elif low > 0:
            places.append(ON_HOST)
        else:
            break
    return places
