"""The two tiers of one agent's cache: a plain LRU on the device, below it a host tier with TTL and passes.

Called by serving.py, the grid of the lab and the twin. Pure: the time is passed in and never goes back.

Exact semantics (times are seconds on the engine's clock, sizes are blocks):
- A request hits its longest prefix of which every block is in the device or the host tier.
- Write-through: afterwards all its blocks are touched or inserted in both tiers, tail first, its own blocks
  pinned; of a request longer than a tier the head that fits is kept there.
- A host block idle for longer than `ttl_seconds` is gone: every entry point first frees all such blocks, so
  neither a lookup nor an occupancy ever sees one. They count as evicted by ttl, and room made by them needs
  no pass.
- An insert that finds the host tier full (100 % is the high watermark) starts one pass, which frees
  `eviction_ratio` of the capacity (rounded down, at least one block), least recently used first, pinned
  ones skipped.
- A new capacity or TTL applies at once: shrinking evicts the least recently used blocks (reason resize, no
  pass).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtune_cache.eviction.names import NUMBERS
from kvtune_cache.lru import LruTable

STORE_THRESHOLD_MAX = 255
"""What a count of askings holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """What can be changed while the engine runs: the knobs of the host tier.

    A block is stored below the device only when asked for at least `store_threshold` times. Raises
    ValueError for a TTL that is not > 0 (infinity is allowed), a ratio outside (0, 1], a negative size, a
    policy that nobody knows, a threshold outside 1 to STORE_THRESHOLD_MAX.
    """

    ttl_seconds: float
    eviction_ratio: float
    host_blocks: int
    policy: str = "LRU"
    store_threshold: int = 1

    def __post_init__(self) -> None:
        """Refuse what no tier can run."""
        if not self.ttl_seconds > 0:
            raise ValueError(f"ttl_seconds: {self.ttl_seconds} is not greater than 0")
        if not 0 < self.eviction_ratio <= 1:
            raise ValueError(f"eviction_ratio: {self.eviction_ratio} is not within (0, 1]")
        if self.host_blocks < 0:
            raise ValueError(f"host_blocks: {self.host_blocks} is less than 0")
        if self.policy not in NUMBERS:
            raise ValueError(f"policy: {self.policy} is not one of {', '.join(NUMBERS)}")
        if not 1 <= self.store_threshold <= STORE_THRESHOLD_MAX:
            raise ValueError(
                f"store_threshold: {self.store_threshold} is not within 1 to {STORE_THRESHOLD_MAX}"
            )

    @property
    def pass_blocks(self) -> int:
        """Blocks one eviction pass frees."""
        return max(1, int(self.eviction_ratio * self.host_blocks + 1e-9))


class HostWork(NamedTuple):
    """What one request did to the host tier (a tuple, because it is made for every request)."""

    inserted: int
    passes: int
    pass_blocks: int


class HostTier:
    """Hold block ids with the time of their last touch, the least recently used first."""

    __slots__ = ("_entries", "_settings", "evicted_pressure", "evicted_resize", "evicted_ttl")

    def __init__(self, settings: CacheSettings) -> None:
        """Start empty, all eviction counts zero."""
        self._settings = settings
        self._entries: OrderedDict[int, float] = OrderedDict()
        self.evicted_ttl = 0
        self.evicted_pressure = 0
        self.evicted_resize = 0

    @property
    def settings(self) -> CacheSettings:
        """Give the settings in force."""
        return self._settings

    @property
    def entries(self) -> OrderedDict[int, float]:
        """Give the table itself, oldest first, for membership tests; callers do not write to it."""
        return self._entries

    def __len__(self) -> int:
        """Count the resident blocks, as of the last sweep."""
        return len(self._entries)

    def sweep(self, now_s: float) -> int:
        """Free every block idle for longer than the TTL at `now_s`; return how many."""
        entries = self._entries
        ttl = self._settings.ttl_seconds
        freed = 0
        for last_s in entries.values():
            if now_s - last_s <= ttl:
                break
            freed += 1
        for _ in range(freed):
            entries.popitem(last=False)
        self.evicted_ttl += freed
        return freed

    def touch(self, blocks: Sequence[int], now_s: float) -> HostWork:
        """Touch or insert the blocks of one request tail first, evicting in passes; sweep before.

        With p blocks a pass and an overflow of d blocks, inserting one by one starts ceil(d / p) passes,
        and the last finds at most the blocks of others: so all touches come first and the passes are taken
        together.
        """
        entries = self._entries
        capacity = self._settings.host_blocks
        own = blocks if len(blocks) <= capacity else blocks[:capacity]
        before = len(entries)
        move_to_end = entries.move_to_end
        for block in reversed(own):
            entries[block] = now_s
            move_to_end(block)
        resident = len(entries)
        if resident <= capacity:
            return HostWork(resident - before, 0, 0)
        return self._relieve(resident - before, resident - capacity, resident - len(own))

    def _relieve(self, inserted: int, overflow: int, others: int) -> HostWork:
        """Run as many passes as an overflow needs, taking at most the blocks of `others`."""
        per_pass = self._settings.pass_blocks
        passes = -(-overflow // per_pass)
        freed = min(passes * per_pass, others)
        popitem = self._entries.popitem
        for _ in range(freed):
            popitem(last=False)
        self.evicted_pressure += freed
        return HostWork(inserted, passes, freed)

    def reconfigure(self, settings: CacheSettings, now_s: float) -> None:
        """Take new settings at `now_s`; what the old TTL had ended stays ended."""
        self.sweep(now_s)
        self._settings = settings
        self.sweep(now_s)
        excess = max(0, len(self._entries) - settings.host_blocks)
        for _ in range(excess):
            self._entries.popitem(last=False)
        self.evicted_resize += excess


class Processed(NamedTuple):
    """What one request hit, in blocks, and what it did to the host tier (a tuple: made for every request)."""

    hit_blocks: int
    host_hit_blocks: int
    last_hit_on_host: bool
    host: HostWork


class TieredCache:
    """Look up and store the blocks of requests in a device tier and the host tier below it."""

    __slots__ = ("device", "host")

    def __init__(self, device_blocks: int, settings: CacheSettings) -> None:
        """Start with both tiers empty."""
        self.device = LruTable(device_blocks)
        self.host = HostTier(settings)

    def process(self, blocks: Sequence[int], now_s: float) -> Processed:
        """Serve one request: find its hits at `now_s`, then touch or insert all its blocks in both tiers."""
        host = self.host
        host.sweep(now_s)
        on_device = self.device.entries
        on_host = host.entries
        hits = from_host = 0
        last_on_host = False
        for block in blocks:
            if block in on_device:
                last_on_host = False
            elif block in on_host:
                from_host += 1
                last_on_host = True
            else:
                break
            hits += 1
        self.device.touch(blocks)
        return Processed(hits, from_host, last_on_host, host.touch(blocks, now_s))
