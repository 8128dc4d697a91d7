"""Learn from touches: where waits end, how long they last, how they cluster; fit it from time to time."""

from typing import Final

from kvtune_cache.reuse_aware.classes import ENDING_STEP, FEW_TOUCHES, TOUCH_STEP
from kvtune_cache.reuse_aware.cohorts import cohort_of, end_wait, part, settle
from kvtune_cache.reuse_aware.fit import fit
from kvtune_cache.reuse_aware.state import (
    BASE,
    BINS,
    CLASS,
    ENDS,
    FEW,
    LAST,
    LEAF,
    LENGTH_MEAN,
    NEXT_FIT,
    NO_COHORT,
    OPEN,
    REQUESTS,
    SAMPLED,
    SERVED_AT,
    THRESHOLD,
    USED,
    Reuse,
)

SAMPLES: Final = 32.0
"""Blocks of an average request that are learned from."""

WHOLE: Final = 1 << 24
FIT_EVERY: Final = 100
FIRST_FITS_EVERY: Final = 25
FIRST: Final = 1000
"""Requests between fits; those at the beginning, and how long that is."""

KEPT: Final = 0.5 ** (FIT_EVERY / 6000.0)
"""Share of what was learned that a fit leaves: half of it after 6,000 requests."""


def sample(reuse: Reuse, length: int) -> None:
    """Set the share of blocks to learn from by the mean length of requests."""
    reals, numbers = reuse.reals, reuse.numbers
    share = max(0.01, 1.0 / numbers[REQUESTS])
    reals[LENGTH_MEAN] += (length - reals[LENGTH_MEAN]) * share
    numbers[THRESHOLD] = int(min(1.0, SAMPLES / max(1.0, reals[LENGTH_MEAN])) * WHOLE)


def _sampled(threshold: int, x: int) -> bool:
    """Choose by a hash of the block's number, so that the same blocks are chosen every time."""
    if threshold >= WHOLE:
        return True
    h = x * 2654435761 & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x45D9F3B & 0xFFFFFFFF
    h ^= h >> 13
    return (h >> 8) < threshold


def touch_block(reuse: Reuse, x: int, now: float, position: int) -> None:
    """Learn from a touch: a wait has ended, another begins in the class that the block has now."""
    blocks, cohorts, scratch, numbers = reuse.blocks, reuse.cohorts, reuse.scratch, reuse.numbers
    marks, c = blocks.marks[x], blocks.cohort[x]
    touches = 0
    if c != NO_COHORT:
        if marks & SAMPLED:
            cell = cohorts.cell[c]
            reuse.cells.events[cell] += 1.0
            end_wait(reuse.cells, cell, now - reuse.reals[BASE])
        part(reuse, x)
        touches = min(FEW_TOUCHES, (marks & FEW) + 1)
    level = 0 if touches == 0 else (1 if touches < FEW_TOUCHES else 2)
    ending = 1 if position == numbers[LAST] else 0
    k = level * 2 + ending
    c = scratch.open_cohort[k]
    if c == NO_COHORT:
        c = cohort_of(reuse, numbers[CLASS] + level * TOUCH_STEP + ending * ENDING_STEP, now)
        scratch.open_cohort[k] = c
        scratch.open_slot[k] = cohorts.cell[c] // BINS
    marks = touches | (marks & LEAF)
    if position >= numbers[LAST] - 1:
        marks |= ENDS
    if _sampled(numbers[THRESHOLD], x):
        marks |= SAMPLED
        cohorts.alive[c] += 1
        scratch.open_samples[k] += 1
    cohorts.members[c] += 1
    blocks.cohort[x] = c
    blocks.marks[x] = marks


def close_request(reuse: Reuse) -> None:
    """Count the waits that the last request began, and how they clustered."""
    scratch, cells, classes = reuse.scratch, reuse.cells, reuse.classes
    for k in range(OPEN):
        scratch.open_cohort[k] = NO_COHORT
        samples = scratch.open_samples[k]
        if samples > 0:
            slot = scratch.open_slot[k]
            cells.waiting[slot * BINS] += samples
            cells.exposure[slot * BINS] -= samples * (reuse.reals[SERVED_AT] - reuse.reals[BASE])
            classes.cluster[slot] += samples
            classes.cluster_squares[slot] += samples * samples
            scratch.open_samples[k] = 0


def learn(reuse: Reuse, now: float) -> None:
    """Let the past fade, and fit what remains."""
    numbers, cells, classes = reuse.numbers, reuse.cells, reuse.classes
    settle(reuse, now)
    for slot in range(numbers[USED]):
        classes.cluster[slot] *= KEPT
        classes.cluster_squares[slot] *= KEPT
        for cell in range(slot * BINS, slot * BINS + BINS):
            cells.events[cell] *= KEPT
            cells.exposure[cell] *= KEPT
    fit(reuse)
    numbers[NEXT_FIT] = numbers[REQUESTS] + (FIRST_FITS_EVERY if numbers[REQUESTS] < FIRST else FIT_EVERY)
