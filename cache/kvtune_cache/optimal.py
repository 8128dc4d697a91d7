"""The best that any policy could do, with all requests known beforehand: Belady's rule with bypass.

The block that is wanted again last leaves first, and one that is wanted again later than every resident
block, or never, is not taken in (Belady, IBM Systems Journal 5(2), 1966; the bypass because a cache need not
keep what it serves). Of blocks that the same request wants next, the deepest of the newest one leaves first.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from kvtune_cache.blocks import NO_BLOCK, Integers
from kvtune_cache.requests import Requests


class Foreseen(NamedTuple):
    """Room for what is worked out; blocks that the same request wants next are chained, the newest first."""

    next_request: Integers
    """A number of each element of `Requests.blocks`: the request that wants it next, else their count."""

    wanted: Integers
    """A number of each block, used by `foresee`."""

    resident: Integers
    """A number of each block, at first 0: 1 where it is resident."""

    chained: Integers
    """A number of each block: the one that came before it among those that the same request wants next."""

    newest: Integers
    """A number of each request: the newest resident block that it wants, NO_BLOCK where there is none."""


def plain_foreseen(requests: Requests, blocks: int) -> Foreseen:
    """Make room of lists for requests of block numbers below `blocks`."""
    return Foreseen(
        next_request=[0] * len(requests.blocks),
        wanted=[0] * blocks,
        resident=[0] * blocks,
        chained=[0] * blocks,
        newest=[0] * (len(requests.starts) - 1),
    )


def foresee(requests: Requests, foreseen: Foreseen) -> None:
    """Fill in `next_request`; uses `wanted`."""
    count = len(requests.starts) - 1
    for x in range(len(foreseen.wanted)):
        foreseen.wanted[x] = count
    for r in range(count - 1, -1, -1):
        for i in range(requests.starts[r], requests.starts[r + 1]):
            foreseen.next_request[i] = foreseen.wanted[requests.blocks[i]]
        for i in range(requests.starts[r], requests.starts[r + 1]):
            foreseen.wanted[requests.blocks[i]] = r


def serve_optimally(requests: Requests, foreseen: Foreseen, capacity: int, found: Integers) -> None:
    """Serve all requests of which `foreseen` tells; `found` as `serve_all` has it.

    A request touches all resident blocks that it wants, so a chain ends as a whole when its request comes.
    """
    blocks, chained, resident, newest = requests.blocks, foreseen.chained, foreseen.resident, foreseen.newest
    never = len(requests.starts) - 1
    for r in range(never):
        newest[r] = NO_BLOCK
    queue = [0]
    queue.pop()
    size = 0
    for r in range(never):
        start, stop = requests.starts[r], requests.starts[r + 1]
        i = start
        while i < stop and resident[blocks[i]] == 1:
            i += 1
        found[r] = i - start
        for i in range(start, stop):
            x, until = blocks[i], foreseen.next_request[i]
            if resident[x] == 0:
                if until == never or i >= start + capacity:
                    continue
                if size >= capacity:
                    victim = _latest(queue, newest, chained, until)
                    if victim == NO_BLOCK:
                        continue
                    resident[victim] = 0
                    size -= 1
                resident[x] = 1
                size += 1
            if until == never:
                resident[x] = 0
                size -= 1
                continue
            if newest[until] == NO_BLOCK:
                heappush(queue, -until)
            chained[x] = newest[until]
            newest[until] = x
        newest[r] = NO_BLOCK


def _latest(queue: list[int], newest: Integers, chained: Integers, until: int) -> int:
    """Take out the resident block that is wanted last, where that is after `until`, else NO_BLOCK.

    `queue` holds the negated number of each request that wants a resident block, and of some before now.
    """
    if len(queue) == 0 or -queue[0] <= until:
        return NO_BLOCK
    last = -queue[0]
    x = newest[last]
    newest[last] = chained[x]
    if newest[last] == NO_BLOCK:
        heappop(queue)
    return x
