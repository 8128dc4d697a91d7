"""Keep blocks in one cache by its rules: touch, take in, free in passes, expire, shrink.

Called by whoever serves requests: requests.py for one cache, tier.py for tiers. What leaves is counted by
its reason, noted in `table.gone` until the next request opens, and remembered in `left` until it is asked for
again.
"""

from math import inf

from kvtune_cache.blocks import (
    GONE,
    NO_BLOCK,
    RESIDENT,
    BlockTable,
    Bytes,
    Integers,
    Longs,
    next_request,
    pin,
    resident,
)
from kvtune_cache.cache import MOST_ASKED, Cache
from kvtune_cache.counts import (
    LEFT,
    PASS_BLOCKS,
    PASSES,
    PRESSURE,
    REFUSED,
    RESIZE,
    TTL,
    WANTED,
    WRITTEN,
)
from kvtune_cache.eviction.names import ARC, REUSE_AWARE
from kvtune_cache.eviction.policy import adopt, drop, evict, hit, hit_run, miss, pass_by, takes, trim
from kvtune_cache.expiry import Recency, is_kept, newer, next_idle, note_hits, note_left, note_taken, oldest
from kvtune_cache.rules import Rules
from kvtune_cache.signals import NOW, POSITION


def open_request(cache: Cache, rules: Rules, now: float) -> None:
    """Begin the next request: nothing is pinned any more, and what is idle or too much by now goes."""
    next_request(cache.table)
    cache.request[NOW] = now
    if rules.ttl_seconds < inf:
        expire(cache, rules, now)
    if resident(cache.table) > rules.capacity:
        shrink(cache, rules)


def expire(cache: Cache, rules: Rules, now: float) -> int:
    """Let all blocks go that were idle for longer than the TTL and are not pinned; how many."""
    policy, table, recency = rules.policy, cache.table, cache.recency
    freed, blocks = 0, len(recency.last)
    cache.request[NOW] = now
    x = oldest(policy, table, recency)
    while x < blocks:
        x = next_idle(policy, table, recency, x, now, rules.ttl_seconds)
        if x < blocks:
            following = newer(policy, table, recency, x)
            drop(policy, cache, x)
            _note_left(cache.counts, cache.left, recency, policy, x, TTL)
            x = following
            freed += 1
    return freed


def shrink(cache: Cache, rules: Rules) -> int:
    """Let blocks go by the policy until the capacity holds them, or all others are pinned; how many."""
    freed, x = 0, 0
    while x != NO_BLOCK and resident(cache.table) > rules.capacity:
        x = evict(rules.policy, cache, rules.capacity)
        if x != NO_BLOCK:
            _note_left(cache.counts, cache.left, cache.recency, rules.policy, x, RESIZE)
            freed += 1
    trim(rules.policy, cache, rules.capacity)
    return freed


def touch(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int, found: int) -> None:
    """Touch or take in the blocks [start, stop) of a request, of which the first `found` are resident.

    Of a request that is longer than the capacity only the head that fits is kept.
    """
    count_asked(cache, rules, blocks, start, stop)
    keep(cache, rules, blocks, start, stop, found)


def keep(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int, found: int) -> None:
    """Do what `touch` does, but for counting that the blocks were asked for."""
    end = min(stop, start + rules.capacity)
    first, taken = start, end
    if rules.pins == 1:
        pin(cache.table, blocks, start, end)
        if rules.tail_first == 1:
            first = min(end, start + found)
        if rules.policy == REUSE_AWARE:
            taken = _make_room(cache, rules, blocks, start, first, end)
    for i in range(first, end):
        at = first + end - 1 - i if rules.tail_first == 1 else i
        if at < taken or cache.table.where[blocks[at]] > RESIDENT:
            _ask(cache, rules, blocks[at], at - start)
        else:
            _pass_by(cache, rules, blocks[at], at - start)
    if first > start:
        hit_run(rules.policy, cache, blocks, start, first)
        if is_kept(cache.recency):
            note_hits(rules.policy, cache.recency, blocks, start, first, cache.request[NOW])


def _make_room(cache: Cache, rules: Rules, blocks: Integers, start: int, first: int, end: int) -> int:
    """Let blocks go for those of [first, end) that are to be taken in, from the head on.

    Where the first stands for which the policy would not: what comes after it would not be hit without it.
    """
    table = cache.table
    room = rules.capacity - resident(table)
    before = _room_for_notes(table, rules)
    taken = end
    for i in range(first, end):
        x = blocks[i]
        if table.where[x] <= RESIDENT and _is_wanted(cache.asked, rules.store_threshold, x):
            if room == 0 and takes(rules.policy, cache, x, i - start):
                room = _free(cache, rules)
            if room == 0:
                taken = i
                break
            room -= 1
    _note(table, cache.counts, cache.left, cache.recency, rules.policy, before)
    return taken


def _pass_by(cache: Cache, rules: Rules, x: int, position: int) -> None:
    """Leave a block of a request out; one that was not asked for often enough is not seen by the policy."""
    cache.request[POSITION] = position
    _count_wanted(cache, x)
    if _is_wanted(cache.asked, rules.store_threshold, x):
        pass_by(rules.policy, cache, x, rules.capacity)
    cache.counts[REFUSED] += 1


def _count_wanted(cache: Cache, x: int) -> None:
    """Count a block that had left and is asked for again."""
    if cache.left[x] != 0:
        cache.counts[WANTED + cache.left[x]] += 1
        cache.left[x] = 0


def _ask(cache: Cache, rules: Rules, x: int, position: int) -> None:
    """Touch or take in one block of a request."""
    policy, recency = rules.policy, cache.recency
    cache.request[POSITION] = position
    if cache.table.where[x] > RESIDENT:
        hit(policy, cache, x)
        if is_kept(recency):
            note_left(policy, recency, x)
            note_taken(policy, recency, x, cache.request[NOW])
        return
    _count_wanted(cache, x)
    if _is_wanted(cache.asked, rules.store_threshold, x):
        before = _room_for_notes(cache.table, rules)
        if rules.pass_blocks > 0 and resident(cache.table) >= rules.capacity:
            _free(cache, rules)
        miss(policy, cache, x, rules.capacity)
        _note(cache.table, cache.counts, cache.left, recency, policy, before)
        if cache.table.where[x] > RESIDENT:
            _note_taken(cache.counts, recency, policy, x, cache.request[NOW])
    else:
        cache.counts[REFUSED] += 1


def take_down(cache: Cache, rules: Rules, x: int) -> None:
    """Take in a block that another tier has let go, if it was asked for often enough and is not here."""
    table, policy, recency = cache.table, rules.policy, cache.recency
    if table.where[x] > RESIDENT or not _is_wanted(cache.asked, rules.store_threshold, x):
        return
    before = _room_for_notes(table, rules)
    if resident(table) >= rules.capacity and (policy > ARC or rules.pass_blocks > 0):
        _free(cache, rules)
    if policy <= ARC:
        miss(policy, cache, x, rules.capacity)
    elif resident(table) < rules.capacity:
        adopt(policy, cache, x)
    _note(table, cache.counts, cache.left, recency, policy, before)
    if table.where[x] > RESIDENT:
        _note_taken(cache.counts, recency, policy, x, cache.request[NOW])


def _free(cache: Cache, rules: Rules) -> int:
    """Let blocks go by the policy: those of a pass, or one where there are no passes; how many."""
    freed, x = 0, 0
    while x != NO_BLOCK and freed < max(1, rules.pass_blocks):
        x = evict(rules.policy, cache, rules.capacity)
        if x != NO_BLOCK:
            freed += 1
    if rules.pass_blocks > 0:
        cache.counts[PASSES] += 1
        cache.counts[PASS_BLOCKS] += freed
    return freed


def _room_for_notes(table: BlockTable, rules: Rules) -> int:
    """Say how many blocks were noted as gone, those of before left out where none is
    pinned, so that they may be more than there are blocks."""
    if rules.pins != 1 and table.state[GONE] + rules.pass_blocks >= len(table.gone):
        table.state[GONE] = 0
    return table.state[GONE]


def _note(table: BlockTable, counts: Longs, left: Bytes, recency: Recency, policy: int, before: int) -> None:
    """Note what has left by pressure since `before` blocks had."""
    for i in range(before, table.state[GONE]):
        _note_left(counts, left, recency, policy, table.gone[i], PRESSURE)


def _note_left(counts: Longs, left: Bytes, recency: Recency, policy: int, x: int, reason: int) -> None:
    """Count a block that has left."""
    counts[LEFT + reason] += 1
    left[x] = reason
    if is_kept(recency):
        note_left(policy, recency, x)


def _note_taken(counts: Longs, recency: Recency, policy: int, x: int, now: float) -> None:
    """Count a block that was taken in."""
    counts[WRITTEN] += 1
    if is_kept(recency):
        note_taken(policy, recency, x, now)


def _is_wanted(asked: Bytes, threshold: int, x: int) -> bool:
    """Say whether x was asked for often enough."""
    return threshold <= 1 or len(asked) == 0 or asked[x] >= threshold


def count_asked(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int) -> None:
    """Count that blocks are asked for, where a threshold needs it."""
    asked = cache.asked
    if rules.store_threshold > 1 and len(asked) > 0:
        for i in range(start, stop):
            x = blocks[i]
            if asked[x] < MOST_ASKED:
                asked[x] += 1
