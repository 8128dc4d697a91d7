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

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvtune_cache.blocks import NO_BLOCK
from kvtune_cache.counts import PASS_BLOCKS, PASSES, WRITTEN
from kvtune_cache.eviction.names import LRU, NUMBERS
from kvtune_cache.level import Level
from kvtune_cache.numbering import Numbering
from kvtune_cache.rules import Rules, pass_blocks
from kvtune_cache.signals import HINT, KIND, OUTPUT_TOKENS, PROMPT_TOKENS
from kvtune_cache.stack import (
    NO_DISK,
    ON_DEVICE,
    ON_DISK,
    HostWork,
    Processed,
    TierRules,
    Tiers,
    look_up,
    open_tiers,
    store,
    tell_tiers,
)

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


class TieredCache:
    """Look up and store the blocks of requests in the tiers; `device`, `host` and `disk` may be read.

    Write-through by LRU goes by ids (recent.py), all else by numbers of blocks (stack.py).
    """

    __slots__ = ("_flow", "_numbered", "_settings", "device", "disk", "host", "numbering")

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
        self._settings = settings
        self._flow = flow
        self.device = Level(Rules(LRU, device_blocks), remembers=False)
        self.host = Level(settings.rules, remembers=True)
        self.disk = None if disk is None else Level(disk, remembers=True)
        self.numbering = Numbering(1)
        self._numbered: tuple[Tiers, TierRules] | None = None
        if not self._is_plain(settings):
            self._number_all()

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
        if self._numbered is None:
            return self._by_ids(blocks, now_s)
        return self._by_numbers(blocks, now_s, (kind, output_tokens, prompt_tokens, hint))

    def sweep(self, now_s: float) -> None:
        """Let time pass between requests: what is idle for too long goes."""
        if self._numbered is not None:
            open_tiers(*self._numbered, now_s)
        elif self.host.recent is not None:
            self.host.recent.expire(self.host.rules.ttl_seconds, now_s)

    def reconfigure(self, settings: CacheSettings, now_s: float, *, disk: Rules | None = None) -> None:
        """Take new settings at `now_s`, and new rules of the disk, where there is one and they are given."""
        plain = self._is_plain(settings)
        if self._numbered is None and not plain:
            self._number_all()
        self.host.reconfigure(settings.rules, now_s)
        self._settings = settings
        if disk is not None and self.disk is not None:
            self.disk.reconfigure(disk, now_s)
        if self._numbered is not None and plain:
            self._unnumber_all()
        elif self._numbered is not None:
            self._bind()

    def ids(self, level: Level) -> list[tuple[int, float]]:
        """List the blocks of a tier and the seconds of their last touch, the oldest first."""
        found, owners = level.by_last_touch(), self.numbering.owners
        return found if self._numbered is None else [(owners[x], last_s) for x, last_s in found]

    def _by_ids(self, blocks: Sequence[int], now_s: float) -> Processed:
        """Serve one request by LRU and write-through."""
        device, host = self.device.recent, self.host.recent
        assert device is not None and host is not None, "all tiers have blocks by ids"
        host.expire(self.host.rules.ttl_seconds, now_s)
        on_device, on_host = device.entries, host.entries
        hits = below = 0
        last_below, all_below = False, True
        for block in blocks:
            if block in on_device:
                last_below = False
                all_below &= block in on_host
            elif block in on_host:
                below += 1
                last_below = True
            else:
                break
            hits += 1
        device.touch(self.device.rules, blocks, hits - below, now_s)
        work = host.touch(self.host.rules, blocks, hits if all_below else 0, now_s)
        return Processed(hits, below, last_below, HostWork(*work))

    def _by_numbers(
        self, blocks: Sequence[int], now_s: float, signals: tuple[float, float, float, float]
    ) -> Processed:
        """Serve one request by any rules."""
        assert self._numbered is not None, "all tiers have blocks by numbers"
        self.sweep(now_s)
        count = self.host.counts
        written, passes, freed = count[WRITTEN], count[PASSES], count[PASS_BLOCKS]
        get = self.numbering.ids.get
        numbers = [get(block, NO_BLOCK) for block in blocks]
        known = numbers.index(NO_BLOCK) if NO_BLOCK in numbers else len(numbers)
        places = [0] * known
        hits = look_up(*self._numbered, numbers, 0, known, places)
        if known < len(numbers):
            self._number(blocks, numbers, known, hits)
        own = list(dict.fromkeys(numbers))
        for level in self.levels[1:]:
            request = level.cache.request
            request[KIND], request[OUTPUT_TOKENS], request[PROMPT_TOKENS], request[HINT] = signals
        tell_tiers(*self._numbered, own, 0, len(own))
        store(*self._numbered, own, 0, len(own))
        work = HostWork(count[WRITTEN] - written, count[PASSES] - passes, count[PASS_BLOCKS] - freed)
        below = hits - places[:hits].count(ON_DEVICE)
        deep = places.count(ON_DISK) if self.disk is not None else 0
        return Processed(hits, below, hits > 0 and places[hits - 1] > ON_DEVICE, work, deep)

    def _is_plain(self, settings: CacheSettings) -> bool:
        """Say whether whole requests by LRU are all that these settings need."""
        simple = self.disk is None and self._flow is Flow.WRITE_THROUGH
        return simple and settings.policy == "LRU" and settings.store_threshold == 1

    def _unnumber_all(self) -> None:
        """Forget the numbers of blocks."""
        for level in self.levels:
            level.unnumber(self.numbering.owners)
        self._numbered = None
        self.numbering = Numbering(1)

    def _number_all(self) -> None:
        """Give numbers to all blocks, those among them that have left and are remembered."""
        blocks = list(dict.fromkeys(block for level in self.levels for block in level.known()))
        capacity = sum(level.rules.capacity for level in self.levels)
        self.numbering = Numbering(max(len(blocks), min(ROOM, 64 + 2 * capacity)))
        if blocks:
            self.numbering.give(blocks, [NO_BLOCK] * len(blocks), 0)
        for level in self.levels:
            level.number(self.numbering.ids, self.numbering.room)
        self._bind()

    def _bind(self) -> None:
        """Take the caches and rules of the tiers as they are now."""
        device, host = self.device, self.host
        disk = host if self.disk is None else self.disk
        rules = NO_DISK if self.disk is None else self.disk.rules
        demotes = int(self._flow is Flow.DEMOTE)
        self._numbered = (
            Tiers(device.cache, host.cache, disk.cache, [0] * self.numbering.room),
            TierRules(device.rules, host.rules, rules, demotes),
        )

    def _number(self, blocks: Sequence[int], numbers: list[int], first: int, hits: int) -> None:
        """Give numbers to blocks from the `first` on that has none; those before `hits` are in some tier."""
        while (lacking := self.numbering.give(blocks, numbers, first)) > 0:
            where = tuple(level.cache.table.where for level in self.levels)
            freed = self.numbering.free(lacking, where, {*numbers[hits:]})
            for level in self.levels[1:]:
                level.forget(freed, self.numbering.owners)
            if len(freed) < lacking:
                self._grow()
        for level in self.levels[1:]:
            level.recall(blocks[first:], numbers[first:])

    def _grow(self) -> None:
        """Make room for twice as many numbers."""
        room = 2 * self.numbering.room
        for level in self.levels:
            level.grow(room)
        self.numbering.grow(room)
        self._bind()
