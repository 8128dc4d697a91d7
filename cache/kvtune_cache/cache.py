"""One cache: its block table, what is known of the request being served, and what policies have learned.

The parts are named tuples of lists (or of arrays, for compiled callers), so that one source runs both ways.
"""

from typing import NamedTuple

from kvtune_cache.blocks import BlockTable, plain_table
from kvtune_cache.eviction.queues import Queues, plain_queues
from kvtune_cache.eviction.token_lru import Tokens, plain_tokens
from kvtune_cache.eviction.workload_state import Workload, plain_workload
from kvtune_cache.eviction.workload_rules import NEUTRAL, WorkloadRules
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.reuse_aware.state import Reuse
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

    queues: Queues
    tokens: Tokens
    workload: Workload
    reuse: Reuse


_QUEUED = (5, 6)
_TOKEN_LRU, _WORKLOAD_AWARE = _QUEUED
_REUSE_AWARE = 7
"""Numbers of `Eviction`, whose module imports this one."""


def plain_cache(blocks: int, policy: int | None = None, *, workload: WorkloadRules = NEUTRAL) -> Cache:
    """Make an empty cache of lists for block numbers below `blocks`; raises ValueError for less than one.

    State that only some policies have is made for every policy, so that they may be switched, or, to save
    memory, for the one `policy` alone that will run.
    """
    return Cache(
        table=plain_table(blocks),
        request=[0.0] * SIGNALS,
        queues=plain_queues(blocks if policy is None or policy in _QUEUED else 0),
        tokens=plain_tokens(blocks if policy in (None, _TOKEN_LRU) else 0),
        workload=plain_workload(blocks if policy in (None, _WORKLOAD_AWARE) else 0, workload),
        reuse=plain_reuse(blocks if policy in (None, _REUSE_AWARE) else 0),
    )
