"""LRU beside ReuseAware: what it would have now, and whether it has done better since the traffic changed.

What was learned of other traffic may be worse than nothing. Where one of the last fits was a surprise, and
LRU would have hit more by the blocks of LOST requests since it was last behind, blocks leave as under LRU for
a time while everything is learned anew. Without a surprise a lead of LRU is chance: sessions that come back
by lot give it one now and then.
"""

from typing import Final

from kvtune_cache.reuse_aware.cells import replay
from kvtune_cache.reuse_aware.state import (
    BEHIND,
    FOLLOWING,
    IN_RIVAL,
    LENGTH_MEAN,
    REQUESTS,
    RIVAL_SIZE,
    SPAN,
    STARTLED,
    UNTIL,
    Reuse,
)

LOST: Final = 6.0
"""Requests of mean length whose blocks LRU may be ahead by."""

FIRST_SPAN: Final = 300
SPAN_GROWTH: Final = 3
LONGEST_SPAN: Final = 6400
"""Requests for which it orders as LRU: at first, by what factor longer each further time, at most. After
twice as many without, the next time is half as long."""


def touch_rival(reuse: Reuse, x: int) -> None:
    """Make x the newest of what LRU would have; `trim_rival` lets the oldest go."""
    blocks = reuse.blocks
    if blocks.marks[x] & IN_RIVAL:
        _unlink(reuse, x)
    else:
        blocks.marks[x] |= IN_RIVAL
        reuse.numbers[RIVAL_SIZE] += 1
    end = len(blocks.cohort)
    second = blocks.rival_older[end]
    blocks.rival_newer[x] = end
    blocks.rival_older[x] = second
    blocks.rival_newer[second] = x
    blocks.rival_older[end] = x


def leave_rival(reuse: Reuse, x: int) -> None:
    """Let LRU not have x, where it has it."""
    if reuse.blocks.marks[x] & IN_RIVAL:
        _unlink(reuse, x)
        reuse.blocks.marks[x] &= ~IN_RIVAL
        reuse.numbers[RIVAL_SIZE] -= 1


def trim_rival(reuse: Reuse, resident: int) -> None:
    """Let LRU have no more blocks than are resident."""
    end = len(reuse.blocks.cohort)
    while reuse.numbers[RIVAL_SIZE] > resident:
        leave_rival(reuse, reuse.blocks.rival_newer[end])


def compare(reuse: Reuse, lead: int) -> None:
    """Note by how many blocks more than under LRU a request was hit; follow LRU no longer than is due."""
    numbers, reals = reuse.numbers, reuse.reals
    if numbers[FOLLOWING] == 0:
        reals[BEHIND] = min(0.0, reals[BEHIND] + lead)
        if numbers[REQUESTS] - numbers[UNTIL] > 2 * numbers[SPAN] and numbers[SPAN] > FIRST_SPAN:
            numbers[SPAN] = max(FIRST_SPAN, numbers[SPAN] // 2)
            numbers[UNTIL] = numbers[REQUESTS]
    elif numbers[REQUESTS] >= numbers[UNTIL]:
        numbers[FOLLOWING] = 0
        replay(reuse)


def is_behind(reuse: Reuse) -> bool:
    """Say whether what was learned has done worse than LRU, by more than chance, since a surprise."""
    numbers, reals = reuse.numbers, reuse.reals
    return (
        numbers[FOLLOWING] == 0
        and numbers[STARTLED] > 0
        and reals[BEHIND] < -LOST * max(1.0, reals[LENGTH_MEAN])
    )


def follow(reuse: Reuse) -> None:
    """Order as LRU from now on, for a time."""
    numbers = reuse.numbers
    span = max(FIRST_SPAN, numbers[SPAN])
    numbers[FOLLOWING] = 1
    numbers[UNTIL] = numbers[REQUESTS] + span
    numbers[SPAN] = min(LONGEST_SPAN, SPAN_GROWTH * span)
    reuse.reals[BEHIND] = 0.0
    replay(reuse)


def clear_rival(reuse: Reuse) -> None:
    """Let LRU have nothing."""
    end = len(reuse.blocks.cohort)
    reuse.numbers[RIVAL_SIZE] = 0
    reuse.blocks.rival_newer[end] = end
    reuse.blocks.rival_older[end] = end


def _unlink(reuse: Reuse, x: int) -> None:
    blocks = reuse.blocks
    newer, older = blocks.rival_newer[x], blocks.rival_older[x]
    blocks.rival_older[newer] = older
    blocks.rival_newer[older] = newer
