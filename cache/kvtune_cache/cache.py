"""One cache: its block table, what is known of the request being served, and what policies have learned.

The parts are named tuples of lists (or of arrays, for compiled callers), so that one source runs both ways.
"""

from collections.abc import MutableSequence
from typing import Final, NamedTuple, TypeAlias

from kvtune_cache.blocks import BlockTable, plain_table

Floats: TypeAlias = MutableSequence[float]
"""A list of floats, or a numpy array of float64."""

NOW: Final = 0
OUTPUT_TOKENS: Final = 1
KIND: Final = 2
START: Final = 3
LENGTH: Final = 4
POSITION: Final = 5
SIGNALS: Final = 6
"""Slots of `request`: seconds on the caller's clock, which never goes back; tokens of the answer (-1: not
known); request type or stop reason, 0 (not known) to 5; index of the request's first block among the blocks;
its blocks; which of them, from 0, is being touched."""


class Cache(NamedTuple):
    """A cache of n blocks at most that were numbered by its caller."""

    table: BlockTable
    request: Floats
    """SIGNALS numbers: what the policy may know of the request that is being served."""


def plain_cache(blocks: int) -> Cache:
    """Make an empty cache of lists for block numbers below `blocks`; raises ValueError for less than one."""
    return Cache(plain_table(blocks), [0.0] * SIGNALS)
