"""What came of simulating one setup on a trace, as values and as plain data.

Made by simulate.py; kept by the result file of a sweep, shown by tables and plots.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kvtune_lab.setups import Setup, setup_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictions:
    """Blocks that have left, by reason, and what was missed of them later."""

    pressure: int
    """Room was needed."""

    ttl: int
    """Idle for longer than the TTL."""

    passes: int
    """Eviction passes; 0 without a ratio."""

    wanted_again: int
    """Blocks that had left and were asked for later."""

    blocks_written: int
    """Blocks taken in."""

    @property
    def total(self) -> int:
        """Blocks that have left for any reason."""
        return self.pressure + self.ttl


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Rates are shares from 0 to 1; the last half is that of the requests, when the cache is warm."""

    setup: Setup
    requests: int
    block_references: int
    distinct_blocks: int
    prompt_tokens: int
    hit_tokens: int
    token_hit_rate: float
    block_hit_rate: float
    token_hit_rate_last_half: float
    block_hit_rate_last_half: float
    evictions: Evictions | None
    """None for OPT, which need not take a block in at all."""


def row(done: Simulation, *, bytes_per_token: int | None, block_tokens: int) -> dict[str, Any]:
    """One flat record for programs: the setup, the rates, what has left and the bytes moved.

    Bytes are null where the bytes of a token are not known; a block counts as a full one.
    """
    figures = asdict(done)
    left = figures.pop("evictions") or dict.fromkeys(Evictions.__dataclass_fields__)
    written = None if done.evictions is None else done.evictions.blocks_written
    return {
        **figures.pop("setup"),
        **figures,
        "evictions": None if done.evictions is None else done.evictions.total,
        "evictions_pressure": left["pressure"],
        "evictions_ttl": left["ttl"],
        "eviction_passes": left["passes"],
        "evicted_then_wanted": left["wanted_again"],
        "blocks_written": written,
        "bytes_written": _times(written, block_tokens, bytes_per_token),
        "bytes_read": _times(done.hit_tokens, bytes_per_token),
    }


def _times(*factors: int | None) -> int | None:
    product = 1
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product


def simulation_from(data: Mapping[str, Any]) -> Simulation:
    """Read a simulation back from its `asdict`; raises KeyError, TypeError or ValueError."""
    figures = dict(data)
    left = figures.pop("evictions")
    return Simulation(
        setup=setup_from(figures.pop("setup")),
        evictions=None if left is None else Evictions(**left),
        **figures,
    )
