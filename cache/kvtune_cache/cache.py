"""One cache: its block table, what is known of the request being served, and what policies have learned.

The parts are named tuples of lists (or of arrays, for compiled callers), so that one source runs both ways.
"""

from typing import Final, NamedTuple, cast

from kvtune_cache.blocks import BlockTable, Bytes, Longs, plain_table
from kvtune_cache.counts import COUNTS
from kvtune_cache.eviction.names import REUSE_AWARE, TOKEN_LRU, WORKLOAD_AWARE
from kvtune_cache.eviction.queues import Queues, plain_queues
from kvtune_cache.eviction.token_lru import Tokens, plain_tokens
from kvtune_cache.eviction.workload_rules import NEUTRAL, WorkloadRules
from kvtune_cache.eviction.workload_state import Workload, plain_workload
from kvtune_cache.expiry import Recency, plain_recency
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.reuse_aware.state import Reuse
from kvtune_cache.signals import SIGNALS, Floats


class Cache(NamedTuple):
    """A cache of n blocks at most that were numbered by its caller."""

    table: BlockTable
    request: Floats
    """SIGNALS numbers: what the policy may know of the request that is being served."""

    counts: Longs
    """COUNTS numbers: what has left and why, what was taken in."""

    left: Bytes
    """n reasons: why a block has left last, until it is asked for again; 0: it has not."""

    recency: Recency
    """Blocks in order of their last touch, of any policy; without room where nobody needs it."""

    asked: Bytes
    """n counts, up to MOST_ASKED: how often a block was asked for; none where all are taken in at once."""

    queues: Queues
    tokens: Tokens
    workload: Workload
    reuse: Reuse


MOST_ASKED: Final = 255

_QUEUED = (TOKEN_LRU, WORKLOAD_AWARE)


def plain_cache(
    blocks: int,
    policy: int | None = None,
    *,
    workload: WorkloadRules = NEUTRAL,
    recency: bool = False,
    asked: bool = False,
) -> Cache:
    """Make an empty cache of lists for block numbers below `blocks`; raises ValueError for less than one.

    State that only some policies have is made for every policy, or for the one `policy` alone that will run:
    then the parts of others are empty tuples, which saves memory and, compiled, much time (each array of a
    cache is handed over to each function). A TTL and a switch of policies need `recency`, a store
    threshold needs `asked`.
    """
    every = policy is None
    return Cache(
        table=plain_table(blocks),
        request=[0.0] * SIGNALS,
        counts=[0] * COUNTS,
        left=[0] * blocks,
        recency=plain_recency(blocks if recency else 0),
        asked=[0] * (blocks if asked else 0),
        queues=plain_queues(blocks) if every or policy in _QUEUED else cast(Queues, ()),
        tokens=plain_tokens(blocks) if every or policy == TOKEN_LRU else cast(Tokens, ()),
        workload=plain_workload(blocks, workload)
        if every or policy == WORKLOAD_AWARE
        else cast(Workload, ()),
        reuse=plain_reuse(blocks) if every or policy == REUSE_AWARE else cast(Reuse, ()),
    )
