"""The best that any policy could do, with all requests known beforehand: Belady's rule with bypass.

The block that is wanted again last leaves first, and one that is wanted again later than every resident
block, or never, is not taken in (Belady, IBM Systems Journal 5(2), 1966; the bypass because a cache need not
keep what it serves). Of blocks that the same request wants next, the deepest of the newest one leaves first.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from kvtune_cache.blocks import Integers
from kvtune_cache.requests import Requests


class Foreseen(NamedTuple):
    """Room for what is worked out: next uses by reference, and residence and next use by block."""

    next_request: Integers
    """A number of each element of `Requests.blocks`: the request that wants it next, else their count."""

    wanted: Integers
    """A number of each block, at first any: the next use of a resident block."""

    resident: Integers
    """A number of each block, at first 0: 1 where it is resident."""


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
    """Serve all requests of which `foreseen` tells; `found` as `serve_all` has it."""
    blocks, wanted, resident = requests.blocks, foreseen.wanted, foreseen.resident
    never = len(requests.starts) - 1
    queue = [(0, 0, 0)]
    queue.pop()
    size = 0
    for r in range(never):
        start, stop = requests.starts[r], requests.starts[r + 1]
        i = start
        while i < stop and resident[blocks[i]] == 1:
            i += 1
        found[r] = i - start
        for i in range(start, stop):
            x, until = int(blocks[i]), int(foreseen.next_request[i])
            if resident[x] == 0:
                if until == never or i >= start + capacity:
                    continue
                if size >= capacity:
                    victim = _latest(queue, wanted, resident, r, until)
                    if victim < 0:
                        continue
                    resident[victim] = 0
                    size -= 1
                resident[x] = 1
                size += 1
            wanted[x] = until
            heappush(queue, (-until, -i, x))


def _latest(
    queue: list[tuple[int, int, int]], wanted: Integers, resident: Integers, now: int, until: int
) -> int:
    """Take out the resident block that is wanted last, where that is after `until`; -1 when none is."""
    while len(queue) > 0:
        use, _, x = queue[0]
        if -use > now and resident[x] == 1 and wanted[x] == -use:
            if -use <= until:
                return -1
            heappop(queue)
            return x
        heappop(queue)
    return -1
