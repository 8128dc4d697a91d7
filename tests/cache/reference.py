"""A slow, obviously correct model of the tiers: block by block, as the semantics are written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvtune_cache.tiers import CacheSettings


@dataclass
class ReferenceTier:
    """A list of (block, last touch), least recently used first."""

    capacity: int
    pass_blocks: int = 1
    ttl: float = float("inf")
    rows: list[tuple[int, float]] = field(default_factory=list)
    passes: int = 0
    inserted: int = 0
    evicted_ttl: int = 0
    evicted_pressure: int = 0
    evicted_resize: int = 0

    def expire(self, now: float) -> None:
        kept = [row for row in self.rows if not now - row[1] > self.ttl]
        self.evicted_ttl += len(self.rows) - len(kept)
        self.rows = kept

    def holds(self, block: int) -> bool:
        return any(row[0] == block for row in self.rows)

    def store(self, blocks: Sequence[int], now: float) -> None:
        pinned = set(blocks[: self.capacity])
        for block in reversed(blocks[: self.capacity]):
            if self.holds(block):
                self.rows = [row for row in self.rows if row[0] != block]
            else:
                if len(self.rows) >= self.capacity:
                    self.one_pass(pinned)
                self.inserted += 1
            self.rows.append((block, now))

    def one_pass(self, pinned: set[int]) -> None:
        self.passes += 1
        victims = [row for row in self.rows if row[0] not in pinned][: self.pass_blocks]
        self.evicted_pressure += len(victims)
        self.rows = [row for row in self.rows if row not in victims]


class ReferenceCache:
    """Device and host as two such lists."""

    def __init__(self, device_blocks: int, settings: CacheSettings) -> None:
        self.device = ReferenceTier(device_blocks)
        self.host = ReferenceTier(settings.host_blocks, settings.pass_blocks, settings.ttl_seconds)

    def process(self, blocks: Sequence[int], now: float) -> tuple[int, int]:
        self.host.expire(now)
        hits = on_host = 0
        for block in blocks:
            if self.device.holds(block):
                hits += 1
            elif self.host.holds(block):
                hits += 1
                on_host += 1
            else:
                break
        self.device.store(blocks, now)
        self.host.store(blocks, now)
        return hits, on_host

    def reconfigure(self, settings: CacheSettings, now: float) -> None:
        host = self.host
        host.expire(now)
        host.capacity, host.pass_blocks, host.ttl = (
            settings.host_blocks,
            settings.pass_blocks,
            settings.ttl_seconds,
        )
        host.expire(now)
        excess = max(0, len(host.rows) - host.capacity)
        host.evicted_resize += excess
        host.rows = host.rows[excess:]
