"""Choose a policy by its number: the one protocol of all policies, as branches.

A policy says what a hit and a miss of one block do and which block leaves next. Called by whoever serves
requests: the replay of requests.py, tiers, an engine's adapter.
"""

from enum import IntEnum

from kvtune_cache.blocks import (
    CURSOR,
    FREQUENT,
    HAND,
    NO_BLOCK,
    NOWHERE,
    RECENT,
    Integers,
    leave,
    link,
    unlink,
)
from kvtune_cache.cache import Cache
from kvtune_cache.chains import renew_run
from kvtune_cache.eviction.arc import arc_evict, arc_hit, arc_miss, arc_trim
from kvtune_cache.eviction.lru import lru_evict, lru_hit, lru_miss
from kvtune_cache.eviction.names import ARC, FIFO, LRU, REUSE_AWARE, S3FIFO, SIEVE, TOKEN_LRU, WORKLOAD_AWARE
from kvtune_cache.eviction.s3fifo import s3fifo_evict, s3fifo_hit, s3fifo_miss, s3fifo_trim
from kvtune_cache.eviction.sieve import sieve_evict, sieve_hit, sieve_miss
from kvtune_cache.eviction.token_lru import (
    token_lru_adopt,
    token_lru_drop,
    token_lru_evict,
    token_lru_forget,
    token_lru_hit,
    token_lru_miss,
)
from kvtune_cache.eviction.workload_aware import (
    workload_adopt,
    workload_begin,
    workload_drop,
    workload_evict,
    workload_forget,
    workload_hit,
    workload_miss,
)
from kvtune_cache.reuse_aware.policy import (
    reuse_adopt,
    reuse_begin,
    reuse_drop,
    reuse_evict,
    reuse_forget,
    reuse_hit,
    reuse_miss,
    reuse_pass,
    reuse_takes,
    reuse_trim,
)
from kvtune_cache.signals import POSITION


class Eviction(IntEnum):
    """The policies, by the number that hot functions take."""

    LRU = 0
    FIFO = 1
    SIEVE = 2
    S3FIFO = 3
    ARC = 4
    TOKEN_LRU = 5
    WORKLOAD_AWARE = 6
    REUSE_AWARE = 7


def begin(policy: int, cache: Cache, blocks: Integers, start: int, stop: int) -> None:
    """Tell the policy of a request before any of its blocks is touched; `cache.request` is filled in."""
    if policy == WORKLOAD_AWARE:
        workload_begin(cache.workload, cache.queues, cache.table, cache.request, blocks, start, stop)
    elif policy == REUSE_AWARE:
        reuse_begin(cache, blocks, start, stop)


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
    elif policy == ARC:
        arc_hit(table, x)
    elif policy == TOKEN_LRU:
        token_lru_hit(cache.tokens, cache.queues, table, cache.request, x)
    elif policy == REUSE_AWARE:
        reuse_hit(cache, x)
    else:
        workload_hit(cache.workload, cache.queues, table, cache.request, x)


def miss(policy: int, cache: Cache, x: int, capacity: int) -> None:
    """Let the policy take in the block x, which is not resident, or leave it out."""
    table = cache.table
    if policy <= FIFO:
        lru_miss(table, x, capacity)
    elif policy == SIEVE:
        sieve_miss(table, x, capacity)
    elif policy == S3FIFO:
        s3fifo_miss(table, x, capacity)
    elif policy == ARC:
        arc_miss(table, x, capacity)
    elif policy == TOKEN_LRU:
        token_lru_miss(cache.tokens, cache.queues, table, cache.request, x, capacity)
    elif policy == REUSE_AWARE:
        reuse_miss(cache, x, capacity)
    else:
        workload_miss(cache.workload, cache.queues, table, cache.request, x, capacity)


def takes(policy: int, cache: Cache, x: int, position: int) -> bool:
    """Say whether a policy would let its next victim go for x, of this position in its request."""
    if policy == REUSE_AWARE:
        return reuse_takes(cache, x, position)
    return True


def pass_by(policy: int, cache: Cache, x: int, capacity: int) -> None:
    """Tell the policy that x, which is not resident, was asked for and is not taken in."""
    if policy == REUSE_AWARE:
        reuse_pass(cache, x, capacity)


def evict(policy: int, cache: Cache, capacity: int) -> int:
    """Let the policy's next victim go; NO_BLOCK when every resident block is pinned."""
    table = cache.table
    if policy <= FIFO:
        return lru_evict(table)
    if policy == SIEVE:
        return sieve_evict(table)
    if policy == S3FIFO:
        return s3fifo_evict(table, capacity)
    if policy == ARC:
        return arc_evict(table)
    if policy == TOKEN_LRU:
        return token_lru_evict(cache.tokens, cache.queues, table, cache.request)
    if policy == REUSE_AWARE:
        return reuse_evict(cache, capacity)
    return workload_evict(cache.workload, cache.queues, table, cache.request)


def hit_run(policy: int, cache: Cache, run: Integers, start: int, stop: int) -> None:
    """Tell the policy that the resident blocks run[start:stop] were asked for, the last of them first.

    `run[start]` is the first block of the request.
    """
    table = cache.table
    if policy == LRU:
        table.state[CURSOR] = NO_BLOCK
        renew_run(table.before, table.after, len(table.where) + RECENT, run, start, stop)
    elif policy != FIFO:
        for i in range(stop - 1, start - 1, -1):
            cache.request[POSITION] = i - start
            hit(policy, cache, run[i])


def drop(policy: int, cache: Cache, x: int) -> None:
    """Let the resident block x go for another reason than pressure: noted as gone, and not remembered."""
    table = cache.table
    if policy == TOKEN_LRU:
        token_lru_drop(cache.queues, table, x)
    elif policy == WORKLOAD_AWARE:
        workload_drop(cache.workload, cache.queues, table, x)
    elif policy == REUSE_AWARE:
        reuse_drop(cache, x)
    else:
        state = table.state
        if state[HAND] == x:
            state[HAND] = table.before[x]
        if state[CURSOR] == x:
            state[CURSOR] = table.before[x]
        leave(table, x)


def adopt(policy: int, cache: Cache, x: int) -> None:
    """Take in a block that comes without a request: of another policy, or down from another tier.

    There is room for it, it is not resident, and those that were touched before it have come before.
    """
    table = cache.table
    if policy == TOKEN_LRU:
        token_lru_adopt(cache.tokens, cache.queues, table, cache.request, x)
    elif policy == WORKLOAD_AWARE:
        workload_adopt(cache.workload, cache.queues, table, cache.request, x)
    elif policy == REUSE_AWARE:
        reuse_adopt(cache, x)
    else:
        if table.where[x] != NOWHERE:
            unlink(table, x)
        table.touches[x] = 0
        link(table, x, FREQUENT if policy == S3FIFO else RECENT)


def trim(policy: int, cache: Cache, capacity: int) -> None:
    """Let the policy forget what it does not remember at a capacity that has become smaller."""
    if policy == S3FIFO:
        s3fifo_trim(cache.table, capacity)
    elif policy == ARC:
        arc_trim(cache.table, capacity)
    elif policy == REUSE_AWARE:
        reuse_trim(cache, capacity)


def forget(policy: int, cache: Cache, x: int) -> None:
    """Let the number x, which is not resident, stand for a block that was never seen."""
    if policy == TOKEN_LRU:
        token_lru_forget(cache.tokens, x)
    elif policy == WORKLOAD_AWARE:
        workload_forget(cache.workload, x)
    elif policy == REUSE_AWARE:
        reuse_forget(cache, x)
    elif cache.table.where[x] != NOWHERE:
        unlink(cache.table, x)
