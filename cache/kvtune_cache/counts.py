"""What a cache counts: the slots of `Cache.counts`, which only grow."""

from typing import Final

PRESSURE: Final = 1
TTL: Final = 2
RESIZE: Final = 3
REASONS: Final = 3
"""Why a block has left: another needed its place; it was idle too long; the capacity has shrunk."""

LEFT: Final = -1
"""LEFT + reason: blocks that have left for it (slots 0 to 2)."""

WANTED: Final = 2
"""WANTED + reason: blocks that had left for it and were asked for again, once each time (slots 3 to 5)."""

PASSES: Final = 6
PASS_BLOCKS: Final = 7
WRITTEN: Final = 8
REFUSED: Final = 9
COUNTS: Final = 10
"""Passes of batch eviction; the blocks that they have freed; blocks taken in; askings for blocks that were
left out, because they were not asked for often enough or are worth less than what would have to leave."""
