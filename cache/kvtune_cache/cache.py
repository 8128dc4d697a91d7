"""One cache: its block table, what is known of the request being served, and what policies have learned.

The parts are named tuples of lists (or of arrays, for compiled callers), so that one source runs both ways.
"""

from typing import NamedTuple

from kvtune_cache.blocks import BlockTable, plain_table
from kvtune_cache.signals import KIND, LENGTH, NOW, OUTPUT_TOKENS, POSITION, SIGNALS, START, Floats

__all__ = [
    "KIND",
    "LENGTH",
    "NOW",
    "OUTPUT_TOKENS",
    "POSITION",
    "SIGNALS",
    "START",
    "Cache",
    "Floats",
    "plain_cache",
]


class Cache(NamedTuple):
    """A cache of n blocks at most that were numbered by its caller."""

    table: BlockTable
    request: Floats
    """SIGNALS numbers: what the policy may know of the request that is being served."""


def plain_cache(blocks: int) -> Cache:
    """Make an empty cache of lists for block numbers below `blocks`; raises ValueError for less than one."""
    return Cache(plain_table(blocks), [0.0] * SIGNALS)
