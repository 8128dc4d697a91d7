"""LRU for a whole request at once, as an engine runs it: the same as block by block, in fewer steps.

Called by tier.py, and by whoever serves whole traces on lists. A request's own blocks end up behind all
others, and they are never more than the capacity, so that what must go is the oldest of the others, and may
go after the touches. Neighbours of a prefix that follow one another already are moved as one run. Lists only;
`keeping.touch` says what is meant.
"""

from math import inf
from typing import cast

from kvtune_cache.blocks import GONE, NOWHERE, RECENT, RESIDENT, SIZES, Integers, next_request
from kvtune_cache.cache import Cache
from kvtune_cache.chains import move_behind
from kvtune_cache.counts import LEFT, PASS_BLOCKS, PASSES, PRESSURE, TTL, WANTED, WRITTEN
from kvtune_cache.eviction.names import LRU
from kvtune_cache.expiry import is_kept
from kvtune_cache.requests import Requests, left
from kvtune_cache.rules import Rules
from kvtune_cache.signals import NOW


def is_lru_run(rules: Rules) -> bool:
    """Say whether rules are those that this module serves."""
    return rules.policy == LRU and rules.tail_first == rules.pins == rules.store_threshold == 1


def serve_all_by_lru(cache: Cache, rules: Rules, requests: Requests, found: list[int]) -> int:
    """Do what `requests.serve_all` does, for rules of `is_lru_run` and requests of lists."""
    starts, blocks, times = requests.starts, requests.blocks, requests.times
    where, before = cache.table.where, left(cache.counts)
    for r in range(len(starts) - 1):
        own = cast("list[int]", blocks[starts[r] : starts[r + 1]])
        open_by_lru(cache, rules, times[r])
        hits = 0
        for x in own:
            if where[x] <= RESIDENT:
                break
            hits += 1
        found[r] = hits
        touch_by_lru(cache, rules, own)
    return left(cache.counts) - before


def open_by_lru(cache: Cache, rules: Rules, now: float) -> None:
    """Begin the next request, or a time without one: what is idle for too long goes."""
    next_request(cache.table)
    cache.request[NOW] = now
    if rules.ttl_seconds < inf:
        expire_by_lru(cache, rules, now)


def touch_by_lru(cache: Cache, rules: Rules, blocks: Integers) -> None:
    """Touch or take in the blocks of a request, all of which are wanted."""
    own = blocks if len(blocks) <= rules.capacity else blocks[: rules.capacity]
    now, last = cache.request[NOW], cache.recency.last
    if is_kept(cache.recency):
        for x in own:
            last[x] = now
    inserted = _to_the_front(cache, own)
    state = cache.table.state
    state[SIZES + RECENT] += inserted
    cache.counts[WRITTEN] += inserted
    overflow = state[SIZES + RECENT] - rules.capacity
    if overflow > 0:
        if rules.pass_blocks > 0:
            passes = -(-overflow // rules.pass_blocks)
            overflow = min(passes * rules.pass_blocks, state[SIZES + RECENT] - len(own))
            cache.counts[PASSES] += passes
            cache.counts[PASS_BLOCKS] += overflow
        _let_go(cache, overflow, PRESSURE)


def expire_by_lru(cache: Cache, rules: Rules, now: float) -> None:
    """Let all blocks go that were idle for longer than the TTL; no request is being served."""
    before, last, blocks = cache.table.before, cache.recency.last, len(cache.table.where)
    freed, ttl = 0, rules.ttl_seconds
    x = before[blocks + RECENT]
    while x < blocks and now - last[x] > ttl:
        freed += 1
        x = before[x]
    if freed > 0:
        _let_go(cache, freed, TTL)


def _to_the_front(cache: Cache, own: Integers) -> int:
    """Make the blocks the newest, the first of them the newest of all; how many were not resident."""
    table = cache.table
    before, after, where = table.before, table.after, table.where
    reasons, counts = cache.left, cache.counts
    anchor = len(where) + RECENT
    inserted, i, stop = 0, 0, len(own)
    while i < stop:
        first = x = own[i]
        if where[x] > RESIDENT:
            i += 1
            while i < stop and after[x] == own[i]:
                x = own[i]
                i += 1
            move_behind(before, after, anchor, first, x)
            anchor = x
            continue
        second, begun = after[anchor], i
        while i < stop and where[own[i]] <= RESIDENT:
            x = own[i]
            before[x] = anchor
            after[anchor] = x
            where[x] = RECENT + 1
            if reasons[x] != 0:
                counts[WANTED + reasons[x]] += 1
                reasons[x] = 0
            anchor = x
            i += 1
        inserted += i - begun
        after[anchor] = second
        before[second] = anchor
    return inserted


def _let_go(cache: Cache, freed: int, reason: int) -> None:
    """Let the oldest blocks go."""
    table = cache.table
    before, where, gone, left = table.before, table.where, table.gone, cache.left
    sentinel = len(where) + RECENT
    x, noted = before[sentinel], table.state[GONE]
    for i in range(noted, noted + freed):
        where[x] = NOWHERE
        left[x] = reason
        gone[i] = x
        x = before[x]
    before[sentinel] = x
    table.after[x] = sentinel
    table.state[GONE] = noted + freed
    table.state[SIZES + RECENT] -= freed
    cache.counts[LEFT + reason] += freed
