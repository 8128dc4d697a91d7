"""When each touched block is wanted again, and what an infinite cache would have hit.

Arrays as readers pack them: blocks are numbered by first appearance and prefix-chained, so the blocks of a
request that are known form its prefix, and are those whose number is below the count of blocks seen before.
"""

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests
from kvtune_lab.readers.loaded import Whole


def next_requests(requests: Requests, distinct_blocks: int) -> Whole:
    """Of each reference the number of the request that wants its block next; their count where none does."""
    starts, blocks = np.asarray(requests.starts), np.asarray(requests.blocks)
    count = len(starts) - 1
    following = np.empty(len(blocks), np.int32)
    wanted = np.full(distinct_blocks, count, np.int32)
    for r in range(count - 1, -1, -1):
        at = slice(starts[r], starts[r + 1])
        following[at] = wanted[blocks[at]]
        wanted[blocks[at]] = r
    return following


def known_prefixes(requests: Requests) -> Whole:
    """Of each request how many of its blocks were touched before it: what an infinite cache hits."""
    starts, blocks = np.asarray(requests.starts), np.asarray(requests.blocks)
    found = np.zeros(len(starts) - 1, np.int32)
    known = 0
    for r in range(len(found)):
        mine = blocks[starts[r] : starts[r + 1]]
        found[r] = np.count_nonzero(mine < known)
        known += len(mine) - int(found[r])
    return found


def tokens_before(requests: Requests) -> NDArray[np.int64]:
    """Tokens of all references before each one, and of all at the end."""
    return np.concatenate(([0], np.cumsum(requests.tokens, dtype=np.int64)))


def requests_of(requests: Requests, references: NDArray[np.int64]) -> NDArray[np.int64]:
    """The request that each of some references belongs to."""
    found: NDArray[np.int64] = np.searchsorted(np.asarray(requests.starts), references, "right") - 1
    return found
