"""Change the policy or the room of a running cache: every resident block stays, in order of its last touch.

What the old policy remembers of blocks that have left is forgotten; what a policy has learned of classes goes
along into a larger cache, and ReuseAware may be given what it had learned before. Plain caches with recency
only. Takes one step for each resident block, beside making the lists.
"""

from collections.abc import Mapping, MutableSequence, Sequence
from typing import TypeVar, cast

from kvtune_cache.blocks import CURSOR, EPOCH, GONE, NO_BLOCK, PINS, RESIDENT, resident
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.eviction.names import LRU, REUSE_AWARE, WORKLOAD_AWARE
from kvtune_cache.eviction.policy import adopt
from kvtune_cache.expiry import is_kept, newer, note_taken, oldest
from kvtune_cache.recent import Recent
from kvtune_cache.reuse_aware.cohorts import settle
from kvtune_cache.reuse_aware.persistence import restore
from kvtune_cache.reuse_aware.start import clear_blocks
from kvtune_cache.reuse_aware.state import SERVED_AT
from kvtune_cache.signals import NOW
from kvtune_cache.tier import cache_below

T = TypeVar("T")


def by_last_touch(cache: Cache, policy: int) -> list[int]:
    """List the resident blocks, the one first that was touched longest ago."""
    assert is_kept(cache.recency)
    found, x = [], oldest(policy, cache.table, cache.recency)
    while x < len(cache.table.where):
        found.append(x)
        x = newer(policy, cache.table, cache.recency, x)
    return found


def switched(cache: Cache, policy: int, to: int, lessons: Mapping[str, object] | None = None) -> Cache:
    """Give the same blocks to another policy; pinned ones stay pinned.

    It has learned nothing yet, but ReuseAware begins with `lessons` if there are some. Raises ValueError, as
    `restore` does, for those that do not fit; nothing is changed then.
    """
    return _moved(cache, policy, to, len(cache.table.where), lessons)


def enlarged(cache: Cache, policy: int, blocks: int) -> Cache:
    """Give the same blocks to a cache for more block numbers, whose policy knows what it has learned."""
    return _moved(cache, policy, policy, blocks)


def _moved(
    cache: Cache, policy: int, to: int, blocks: int, lessons: Mapping[str, object] | None = None
) -> Cache:
    made = plain_cache(blocks, to, recency=True, asked=len(cache.asked) > 0)
    if lessons is not None and to == REUSE_AWARE:
        restore(made.reuse, lessons)
    fresh = made._replace(request=cache.request, counts=cache.counts)
    for kept, new in (
        (cache.left, fresh.left),
        (cache.asked, fresh.asked),
        (cache.table.pinned, fresh.table.pinned),
        (cache.table.gone, fresh.table.gone),
    ):
        new[: len(kept)] = kept
    for slot in (EPOCH, PINS, GONE):
        fresh.table.state[slot] = cache.table.state[slot]
    fresh.table.state[CURSOR] = NO_BLOCK
    if policy == to:
        _take_along(cache, fresh, policy)
    now, last = cache.request[NOW], cache.recency.last
    for x in _held(cache, policy):
        fresh.request[NOW] = last[x]
        adopt(to, fresh, x)
        note_taken(to, fresh.recency, x, last[x])
    fresh.request[NOW] = now
    return fresh


def _held(cache: Cache, policy: int) -> list[int]:
    """List the resident blocks by last touch, even where a policy has failed between two steps."""
    where = cache.table.where
    order = [x for x in by_last_touch(cache, policy) if where[x] > RESIDENT]
    if len(order) == resident(cache.table):
        return order
    known = set(order)
    return [x for x, place in enumerate(where) if place > RESIDENT and x not in known] + order


def _take_along(cache: Cache, fresh: Cache, policy: int) -> None:
    """Copy what a policy has learned of classes."""
    if policy == WORKLOAD_AWARE:
        learned, room = cache.workload, fresh.workload
        _copy(learned.settings, room.settings)
        _copy(learned.fit.learned, room.fit.learned)
        _copy(learned.fit.counts, room.fit.counts)
        _copy(learned.fit.survival, room.fit.survival)
    elif policy == REUSE_AWARE:
        parts, new = cache.reuse, fresh.reuse
        settle(parts, parts.reals[SERVED_AT])  # nobody waits in the new one
        for values, into in zip((*parts.cells, *parts.classes), (*new.cells, *new.classes), strict=True):
            _copy(cast(MutableSequence[float], values), cast(MutableSequence[float], into))
        _copy(cache.reuse.numbers, fresh.reuse.numbers)
        _copy(cache.reuse.reals, fresh.reuse.reals)
        clear_blocks(fresh.reuse)


def _copy(values: MutableSequence[T], into: MutableSequence[T]) -> None:
    into[: len(values)] = values


def as_recent(cache: Cache, owners: Sequence[int], *, remembers: bool) -> Recent:
    """Give the blocks of a cache of LRU by their ids, and what was counted."""
    recent, last = Recent(remembers=remembers), cache.recency.last
    left = {owners[x]: reason for x, reason in enumerate(cache.left) if remembers and reason > 0}
    blocks = ((owners[x], last[x]) for x in by_last_touch(cache, LRU))
    recent.take_over(blocks, left, cast(list[int], cache.counts))
    return recent


def as_cache(recent: Recent, policy: int, ids: Mapping[int, int], room: int) -> Cache:
    """Give blocks by ids, and what was counted, to a cache for numbers below `room`.

    `ids` has numbers of all of them, and of some that have left.
    """
    cache = cache_below(room, policy)._replace(counts=recent.counts)
    for block, reason in recent.left().items():
        if block in ids:
            cache.left[ids[block]] = reason
    for block, seconds in recent.entries.items():
        cache.request[NOW] = seconds
        adopt(policy, cache, ids[block])
        note_taken(policy, cache.recency, ids[block], seconds)
    return cache
