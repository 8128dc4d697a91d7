"""Time to live by deadline: blocks in order of their last touch, whatever the policy, the idle at one end.

LRU keeps that order itself, in its only list; all other policies have links of their own for it. A cache
without a TTL has room for neither and pays nothing. A sweep costs one step for each block that it frees, and
one for each pinned block that it passes over.
"""

from typing import NamedTuple

from kvtune_cache.blocks import RECENT, BlockTable, Integers, is_pinned
from kvtune_cache.chains import renew_run
from kvtune_cache.eviction.names import LRU
from kvtune_cache.signals import Floats


class Recency(NamedTuple):
    """Resident blocks in order of their last touch: lists or arrays of n + 1 and n, or of 1 and none."""

    before: Integers
    """The neighbour that was touched later; the last slot is the list's sentinel."""

    after: Integers
    """The neighbour that was touched earlier."""

    last: Floats
    """Seconds on the caller's clock of a block's last touch."""


def plain_recency(blocks: int) -> Recency:
    """Make an empty order of lists; none at all for no blocks."""
    return Recency(before=[blocks] * (blocks + 1), after=[blocks] * (blocks + 1), last=[0.0] * blocks)


def is_kept(recency: Recency) -> bool:
    """Say whether there is room for the order."""
    return len(recency.last) > 0


def note_taken(policy: int, recency: Recency, x: int, now: float) -> None:
    """Put a block that has been taken in at the newest end."""
    recency.last[x] = now
    if policy != LRU:
        before, after, sentinel = recency.before, recency.after, len(recency.last)
        second = after[sentinel]
        before[x] = sentinel
        after[x] = second
        before[second] = x
        after[sentinel] = x


def note_left(policy: int, recency: Recency, x: int) -> None:
    """Take out a block that has left."""
    if policy != LRU:
        newer, older = recency.before[x], recency.after[x]
        recency.after[newer] = older
        recency.before[older] = newer


def note_hits(policy: int, recency: Recency, run: Integers, start: int, stop: int, now: float) -> None:
    """Move resident blocks to the newest end, the first of them to its very end."""
    last = recency.last
    for i in range(start, stop):
        last[run[i]] = now
    if policy != LRU:
        renew_run(recency.before, recency.after, len(last), run, start, stop)


def oldest(policy: int, table: BlockTable, recency: Recency) -> int:
    """Find the block that was touched longest ago; n or more where there is none."""
    if policy == LRU:
        return table.before[len(table.where) + RECENT]
    return recency.before[len(recency.last)]


def newer(policy: int, table: BlockTable, recency: Recency, x: int) -> int:
    """Find the block that was touched next after x; n or more where there is none."""
    return table.before[x] if policy == LRU else recency.before[x]


def next_idle(policy: int, table: BlockTable, recency: Recency, x: int, now: float, ttl: float) -> int:
    """Find the first block from x on that was idle for longer than a time and may leave; n or more: none."""
    last, blocks = recency.last, len(recency.last)
    while x < blocks and now - last[x] > ttl and is_pinned(table, x):
        x = newer(policy, table, recency, x)
    return x if x < blocks and now - last[x] > ttl else blocks
