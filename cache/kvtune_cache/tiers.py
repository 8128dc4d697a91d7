"""The tiers of one agent's cache: a plain LRU on the device, below it the host, below that a disk or none.

Called by serving.py, the grid of the lab and the twin. Pure: the time is passed in and never goes back.

Exact semantics (times are seconds on the engine's clock, sizes are blocks):
- A request hits its longest prefix of which every block is in some tier; a block counts for the highest.
- Afterwards all its blocks are touched or taken in on the device, tail first, its own blocks pinned; of a
  request longer than a tier the head that fits is kept there. Flow.WRITE_THROUGH: on the host, too.
  Flow.DEMOTE: the host touches what it has and takes in what the device lets go.
- What the host lets go because of pressure goes down to the disk, which touches what it has of a request; a
  hit below is taken in above like any other block. A tier takes in only what was asked for often enough.
- A block idle for longer than its tier's TTL is gone: every entry point first frees all such blocks, so
  neither a lookup nor an occupancy ever sees one, and room made by them needs no pass. On the disk a block
  is idle from when it came down.
- An insert that finds a tier full (100 % is the high watermark) starts one pass, which frees
  `eviction_ratio` of the capacity (rounded down, at least one block) by the policy, pinned ones skipped.
- New rules apply at once: shrinking evicts by the policy (reason resize, no pass), another policy takes over
  every block. Evicting by one policy what the other has taken in loses none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kvtune_cache.blocks import NO_BLOCK, NOWHERE, RESIDENT
from kvtune_cache.counts import PASS_BLOCKS, PASSES, WRITTEN
from kvtune_cache.eviction.names import LRU, NUMBERS
from kvtune_cache.level import Level
from kvtune_cache.numbering import Numbering
from kvtune_cache.rules import Rules, pass_blocks

STORE_THRESHOLD_MAX = 255
"""What a count of askings holds."""

ROOM = 1 << 16
"""Block numbers at most to begin with."""


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
        return pass_blocks(self.eviction_ratio, self.host_blocks)

    @property
    def rules(self) -> Rules:
        """The same as rules of the host tier."""
        return Rules(
            NUMBERS[self.policy],
            self.host_blocks,
            ttl_seconds=self.ttl_seconds,
            pass_blocks=self.pass_blocks,
            store_threshold=self.store_threshold,
        )


class Flow(StrEnum):
    """When a block is written to the host."""

    WRITE_THROUGH = "write-through"
    DEMOTE = "demote"


class HostWork(NamedTuple):
    """What one request did to the host tier (a tuple, because it is made for every request)."""

    inserted: int
    passes: int
    pass_blocks: int


class Processed(NamedTuple):
    """What one request hit, in blocks, and what it did to the host tier (a tuple: made for every request).

    `host_hit_blocks` are those below the device, `disk_hit_blocks` those of them on the disk.
    """

    hit_blocks: int
    host_hit_blocks: int
    last_hit_on_host: bool
    host: HostWork
    disk_hit_blocks: int = 0


class TieredCache:
    """Look up and store the blocks of requests in the tiers; `device`, `host` and `disk` may be read."""

    __slots__ = ("_flow", "_settings", "device", "disk", "host", "numbering")

    def __init__(
        self,
        device_blocks: int,
        settings: CacheSettings,
        *,
        disk: Rules | None = None,
        flow: Flow = Flow.WRITE_THROUGH,
    ) -> None:
        """Start with all tiers empty; raises ValueError for a negative size of the device."""
        if device_blocks < 0:
            raise ValueError(f"device_blocks: {device_blocks} is less than 0")
        room = min(ROOM, 64 + 2 * (device_blocks + settings.host_blocks + (disk.capacity if disk else 0)))
        self._settings = settings
        self._flow = flow
        self.numbering = Numbering(room)
        self.device = Level(Rules(LRU, device_blocks), room)
        self.host = Level(settings.rules, room)
        self.disk = None if disk is None else Level(disk, room)

    @property
    def settings(self) -> CacheSettings:
        """Give the settings in force."""
        return self._settings

    @property
    def levels(self) -> tuple[Level, ...]:
        """Give the tiers, from the top."""
        return (self.device, self.host) if self.disk is None else (self.device, self.host, self.disk)

    def process(
        self,
        blocks: Sequence[int],
        now_s: float,
        *,
        kind: int = 0,
        output_tokens: int = -1,
        prompt_tokens: int = 0,
        hint: float = 0.0,
    ) -> Processed:
        """Serve one request: find its hits at `now_s`, then touch or take in all its blocks."""
        self.sweep(now_s)
        numbers = self._numbers(blocks)
        hits, below, on_disk, last_below = self._look_up(numbers)
        host, count = self.host, self.host.cache.counts
        before = count[WRITTEN], count[PASSES], count[PASS_BLOCKS]
        for level in self.levels[1:]:
            level.tell(numbers, kind, output_tokens, prompt_tokens, hint)
        self._store(numbers if len(set(numbers)) == len(numbers) else list(dict.fromkeys(numbers)))
        count = host.cache.counts
        work = HostWork(count[WRITTEN] - before[0], count[PASSES] - before[1], count[PASS_BLOCKS] - before[2])
        return Processed(hits, below, last_below, work, on_disk)

    def sweep(self, now_s: float) -> None:
        """Let time pass between requests: what is idle for too long goes."""
        for level in self.levels:
            level.open(now_s)

    def reconfigure(self, settings: CacheSettings, now_s: float, *, disk: Rules | None = None) -> None:
        """Take new settings at `now_s`, and new rules of the disk, where there is one and they are given."""
        self.host.reconfigure(settings.rules, now_s)
        self._settings = settings
        if disk is not None and self.disk is not None:
            self.disk.reconfigure(disk, now_s)

    def ids(self, level: Level) -> list[tuple[int, float]]:
        """List the blocks of a tier and the seconds of their last touch, the oldest first."""
        return [(self.numbering.owners[x], last_s) for x, last_s in level.by_last_touch()]

    def _look_up(self, numbers: list[int]) -> tuple[int, int, int, bool]:
        """Count hits, those below the device, those of them on the disk; whether the last is below."""
        where = self.device.cache.table.where
        on_host = self.host.cache.table.where
        on_disk = self.disk.cache.table.where if self.disk is not None else None
        hits = below = deep = 0
        last_below = False
        for x in numbers:
            if where[x] > RESIDENT:
                last_below = False
            else:
                if on_host[x] <= RESIDENT:
                    if on_disk is None or on_disk[x] <= RESIDENT:
                        break
                    deep += 1
                below += 1
                last_below = True
            hits += 1
        return hits, below, deep, last_below

    def _store(self, numbers: list[int]) -> None:
        """Touch or take in the blocks of a request, and let what is pushed out go down."""
        device, host, disk = self.device, self.host, self.disk
        device.touch(numbers)
        if self._flow is Flow.WRITE_THROUGH:
            host.touch(numbers)
        else:
            host.touch_held(numbers)
            host.take_down(device.let_go())
        if disk is not None:
            disk.touch_held(numbers)
            disk.take_down(host.let_go())

    def _numbers(self, blocks: Sequence[int]) -> list[int]:
        """Give the numbers of blocks, new ones to those that have none."""
        get = self.numbering.ids.get
        numbers = [get(block, NO_BLOCK) for block in blocks]
        if NO_BLOCK in numbers:
            self._number(blocks, numbers)
        return numbers

    def _number(self, blocks: Sequence[int], numbers: list[int]) -> None:
        """Fill in numbers that no tier needs and this request does not use."""
        known = {*numbers}
        used = {*numbers}
        while not self.numbering.give(blocks, numbers, self._is_free(used), used):
            self._grow()
        for level in self.levels[1:]:
            level.forget(used - known)

    def _is_free(self, used: set[int]) -> Callable[[int], bool]:
        """Make a function that says whether nobody needs a number: no tier, and it is not used."""
        places = [level.cache.table.where for level in self.levels]
        if len(places) == 2:
            device, host = places
            return lambda x: host[x] == NOWHERE and device[x] == NOWHERE and x not in used
        return lambda x: x not in used and all(where[x] == NOWHERE for where in places)

    def _grow(self) -> None:
        """Make room for twice as many numbers."""
        room = 2 * self.numbering.room
        for level in self.levels:
            level.grow(room)
        self.numbering.grow(room)
