"""Choose a policy by its number: the one protocol of all policies, as branches.

A policy says what a hit and a miss of one block do and which block leaves next. Called by whoever serves
requests: the replay of requests.py, tiers, an engine's adapter.
"""

from enum import IntEnum

from kvtune_cache.blocks import Integers
from kvtune_cache.cache import Cache
from kvtune_cache.eviction.arc import arc_evict, arc_hit, arc_miss
from kvtune_cache.eviction.lru import lru_evict, lru_hit, lru_miss
from kvtune_cache.eviction.s3fifo import s3fifo_evict, s3fifo_hit, s3fifo_miss
from kvtune_cache.eviction.sieve import sieve_evict, sieve_hit, sieve_miss


class Eviction(IntEnum):
    """The policies, by the number that hot functions take."""

    LRU = 0
    FIFO = 1
    SIEVE = 2
    S3FIFO = 3
    ARC = 4


LRU, FIFO, SIEVE, S3FIFO = 0, 1, 2, 3
"""The same as plain numbers, for functions that are compiled; ARC is the rest."""


def begin(policy: int, cache: Cache, blocks: Integers, start: int, stop: int) -> None:
    """Tell the policy of a request before any of its blocks is touched; `cache.request` is filled in."""


def hit(policy: int, cache: Cache, x: int) -> None:
    """Tell the policy that the resident block x was asked for."""
    table = cache.table
    if policy == LRU:
        lru_hit(table, x)
    elif policy == FIFO:
        return
    elif policy == SIEVE:
        sieve_hit(table, x)
    elif policy == S3FIFO:
        s3fifo_hit(table, x)
    else:
        arc_hit(table, x)


def miss(policy: int, cache: Cache, x: int, capacity: int) -> None:
    """Let the policy take in the block x, which is not resident, or leave it out."""
    table = cache.table
    if policy <= FIFO:
        lru_miss(table, x, capacity)
    elif policy == SIEVE:
        sieve_miss(table, x, capacity)
    elif policy == S3FIFO:
        s3fifo_miss(table, x, capacity)
    else:
        arc_miss(table, x, capacity)


def evict(policy: int, cache: Cache, capacity: int) -> int:
    """Let the policy's next victim go; NO_BLOCK when every resident block is pinned."""
    table = cache.table
    if policy <= FIFO:
        return lru_evict(table)
    if policy == SIEVE:
        return sieve_evict(table)
    if policy == S3FIFO:
        return s3fifo_evict(table, capacity)
    return arc_evict(table)
