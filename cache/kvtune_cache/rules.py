"""How one cache is to be run, as numbers alone, so that compiled functions take it, too."""

from math import inf
from typing import NamedTuple


class Rules(NamedTuple):
    """The rules of one cache; the defaults leave out whatever is left out."""

    policy: int
    """The number of `Eviction`."""

    capacity: int
    """Blocks; 0 holds nothing."""

    tail_first: int = 1
    """1: the blocks of a request are touched tail first, so that tails leave before heads; 0: head first."""

    pins: int = 1
    """1: the blocks of a request do not leave while it is served."""

    ttl_seconds: float = inf
    """A block that was idle for longer is gone. Needs a cache with recency (`cache_for`)."""

    pass_blocks: int = 0
    """Blocks that are freed at once where the cache is full; 0: one by one, as they are needed."""

    store_threshold: int = 1
    """A block is taken in when it was asked for this often, up to 255. Needs a cache that counts."""


def pass_blocks(eviction_ratio: float, capacity: int) -> int:
    """Count the blocks that one pass frees: a share of the capacity, at least one block."""
    return max(1, int(eviction_ratio * capacity + 1e-9))
