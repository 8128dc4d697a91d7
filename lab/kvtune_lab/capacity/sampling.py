"""Make a small trace out of a large one whose hit rates at scaled capacities estimate those of the large one.

SHARDS (Waldspurger et al., FAST 2015): keep the references of those blocks whose hash is below a rate and
scale capacities by it. Which blocks stay is drawn by block, not by session: the blocks that stay of a request
are a chain again (its ancestors that stayed), so a prefix is still a prefix, and requests shrink by the rate
as the cache does. A draw of whole sessions would leave requests as long as they are beside a smaller cache,
and its spread is three to ten times as large (docs/capacity.md has the figures).

What a sample cannot know is whether a hole lies between two ancestors that stayed; policies that let a child
outlive its parent look a little better than they are. Policies that look at lengths of requests are not
sampled at all, see curves.py.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: salts far apart (Steele et al., OOPSLA 2014, SplitMix64, also the mixing)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A trace of some blocks of another one; rate 1 is the trace itself."""

    requests: Requests
    rate: float
    salt: int

    def scaled(self, capacity_blocks: int) -> int:
        """The capacity that stands for that many blocks of the whole trace, at least 1."""
        return max(1, round(capacity_blocks * self.rate))


def sampled(requests: Requests, *, rate: float, salt: int) -> Sample:
    """Draw a sample; raises ValueError for a rate outside (0, 1] and where no block is drawn."""
    if not 0 < rate <= 1:
        raise ValueError(f"sample: {rate} is not within (0, 1]")
    if rate == 1:
        return Sample(requests=requests, rate=rate, salt=salt)
    blocks = np.asarray(requests.blocks)
    drawn = np.flatnonzero(uniform(np.arange(int(blocks.max()) + 1, dtype=np.uint64), salt) < rate)
    if not len(drawn):
        raise ValueError(f"sample: {rate} draws none of {int(blocks.max()) + 1} blocks")
    numbers = np.full(int(blocks.max()) + 1, -1, np.int32)
    numbers[drawn] = np.arange(len(drawn), dtype=np.int32)
    kept = np.flatnonzero(numbers[blocks] >= 0)
    parts: list[Any] = [
        np.searchsorted(kept, np.asarray(requests.starts)),
        numbers[blocks[kept]],
        np.asarray(requests.tokens)[kept],
        requests.times,
        requests.outputs,
        requests.kinds,
        requests.hints,
    ]
    return Sample(requests=Requests(*parts), rate=rate, salt=salt)


def uniform(numbers: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """Hash whole numbers to [0, 1): the same number and salt give the same value on every machine."""
    x = numbers + np.uint64(salt * GOLDEN % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53
