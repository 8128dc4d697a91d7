"""Learn from touches: where waits end, how long they last, how they cluster; fit it from time to time."""

from typing import Final

from kvtune_cache.reuse_aware.classes import ENDING_STEP, FEW_TOUCHES, TOUCH_STEP
from kvtune_cache.reuse_aware.cohorts import cohort_of, end_wait, part, settle
from kvtune_cache.reuse_aware.fit import fit
from kvtune_cache.reuse_aware.rival import follow, is_behind, touch_rival
from kvtune_cache.reuse_aware.state import (
    AGES,
    BASE,
    BINS,
    CLASS,
    ENDS,
    FEW,
    GROUPS,
    IN_RIVAL,
    LAST,
    LEAF,
    LENGTH_MEAN,
    NEXT_FIT,
    NO_COHORT,
    OFTEN_UNTIL,
    OPEN,
    REQUESTS,
    RETURN_SQUARES,
    RETURNED,
    RETURNS,
    SAMPLED,
    SERVED_AT,
    STARTLED,
    THRESHOLD,
    USED,
    Blocks,
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

SURPRISE: Final = 4.0
"""Above this the traffic has changed, and what was learned before fades with the square of the surprise."""

LOOK_EVERY: Final = 25
"""Requests after which it looks for a surprise, and fits at once where there is one."""

STARTLING: Final = 2.0
STARTLED_FITS: Final = 3
"""Above the first, a lead of LRU up to the third fit after this one is held to be its consequence."""

LEFT_TO_LRU: Final = 0.01
"""Share of what was learned that is left when LRU is followed."""

OFTEN: Final = 200
"""Requests after that for which it fits as often as at the beginning."""

RETURNS_KEPT: Final = 0.7
"""Share of what is known of blocks coming back together that a fit leaves."""


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


def class_of(reuse: Reuse, x: int, position: int) -> int:
    """Tell the class that a block of the request being served is about to be touched in."""
    numbers = reuse.numbers
    return _class(numbers[CLASS], _opened(_touches(reuse.blocks, x), position == numbers[LAST]))


def _touches(blocks: Blocks, x: int) -> int:
    """Count the touches before this one, up to FEW_TOUCHES."""
    return 0 if blocks.cohort[x] == NO_COHORT else min(FEW_TOUCHES, (blocks.marks[x] & FEW) + 1)


def _opened(touches: int, ending: bool) -> int:
    """Number the cohorts that a request opens: by touches before, and whether the block ends it."""
    level = 0 if touches == 0 else (1 if touches < FEW_TOUCHES else 2)
    return level * 2 + (1 if ending else 0)


def _class(request: int, opened: int) -> int:
    return request + opened // 2 * TOUCH_STEP + opened % 2 * ENDING_STEP


def touch_block(reuse: Reuse, x: int, now: float, position: int) -> None:
    """Learn from a touch: a wait has ended, another begins in the class that the block has now."""
    blocks, cohorts, scratch, numbers = reuse.blocks, reuse.cohorts, reuse.scratch, reuse.numbers
    marks, c = blocks.marks[x], blocks.cohort[x]
    touches = _touches(blocks, x)
    if c != NO_COHORT:
        if marks & SAMPLED:
            cell = cohorts.cell[c]
            reuse.cells.events[cell] += 1.0
            numbers[RETURNED] += 1
            end_wait(reuse.cells, cell, now - reuse.reals[BASE])
        part(reuse, x)
    k = _opened(touches, position == numbers[LAST])
    c = scratch.open_cohort[k]
    if c == NO_COHORT:
        c = cohort_of(reuse, _class(numbers[CLASS], k), now)
        scratch.open_cohort[k] = c
        scratch.open_slot[k] = cohorts.cell[c] // BINS
    marks = touches | (marks & (LEAF | IN_RIVAL))
    if position >= numbers[LAST] - 1:
        marks |= ENDS
    if _sampled(numbers[THRESHOLD], x):
        marks |= SAMPLED
        cohorts.alive[c] += 1
        scratch.open_samples[k] += 1
    cohorts.members[c] += 1
    blocks.cohort[x] = c
    blocks.marks[x] = marks
    touch_rival(reuse, x)


def close_request(reuse: Reuse) -> None:
    """Count the waits that the last request began and ended, and how they clustered."""
    reals, ended = reuse.reals, reuse.numbers[RETURNED]
    reals[RETURNS] += ended
    reals[RETURN_SQUARES] += ended * ended
    reuse.numbers[RETURNED] = 0
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
    """Fit where it is time to, or where there is a surprise; leave it to LRU where that does better."""
    numbers = reuse.numbers
    request = numbers[REQUESTS]
    if request >= numbers[NEXT_FIT] or request % LOOK_EVERY == 0:
        settle(reuse, now)
        surprise = surprise_of(reuse)
        if request >= numbers[NEXT_FIT] or surprise > SURPRISE:
            _fit_again(reuse, surprise)
    if is_behind(reuse):
        settle(reuse, now)
        _fade(reuse, LEFT_TO_LRU)
        remember(reuse)
        follow(reuse)
        numbers[OFTEN_UNTIL] = request + OFTEN
        numbers[NEXT_FIT] = request + FIRST_FITS_EVERY


def _fit_again(reuse: Reuse, surprise: float) -> None:
    """Let the past fade, and fit what remains."""
    numbers = reuse.numbers
    kept = KEPT
    numbers[STARTLED] = max(0, numbers[STARTLED] - 1)
    if surprise > SURPRISE:
        kept *= (SURPRISE / surprise) ** 2
    if surprise > STARTLING:
        numbers[STARTLED] = STARTLED_FITS
    _fade(reuse, kept)
    fit(reuse)
    remember(reuse)
    often = numbers[REQUESTS] < max(FIRST, numbers[OFTEN_UNTIL])
    numbers[NEXT_FIT] = numbers[REQUESTS] + (FIRST_FITS_EVERY if often else FIT_EVERY)


def _fade(reuse: Reuse, kept: float) -> None:
    classes, events, exposure = reuse.classes, reuse.cells.events, reuse.cells.exposure
    for slot in range(reuse.numbers[USED]):
        classes.cluster[slot] *= kept
        classes.cluster_squares[slot] *= kept
        for cell in range(slot * BINS, slot * BINS + AGES):
            events[cell] *= kept
            exposure[cell] *= kept


def remember(reuse: Reuse) -> None:
    """Note how things stand, to see at the next fit what has come since."""
    cells, reals = reuse.cells, reuse.reals
    for slot in range(reuse.numbers[USED]):
        for cell in range(slot * BINS, slot * BINS + AGES):
            cells.seen_events[cell] = cells.events[cell]
            cells.seen_exposure[cell] = cells.exposure[cell]
    reals[RETURNS] *= RETURNS_KEPT
    reals[RETURN_SQUARES] *= RETURNS_KEPT


def surprise_of(reuse: Reuse) -> float:
    """Tell how far the waits that have ended since the last fit are from what it led to expect.

    The mean over the age groups of Pearson's statistic, with room for the blocks of one request that come
    back together: about 1 or less while the traffic stays as it is.
    """
    cells, classes, reals, sums = reuse.cells, reuse.classes, reuse.reals, reuse.scratch.sums
    if reals[RETURNS] <= 0.0:
        return 0.0
    together = reals[RETURN_SQUARES] / reals[RETURNS]
    for i in range(2 * GROUPS):
        sums[i] = 0.0
    events, exposure, rate, group = cells.events, cells.exposure, cells.rate, classes.group
    seen_events, seen_exposure = cells.seen_events, cells.seen_exposure
    for slot in range(reuse.numbers[USED]):
        for b in range(AGES):
            cell = slot * BINS + b
            waited = exposure[cell] - seen_exposure[cell]
            if waited > 0.0:
                sums[group[b]] += events[cell] - seen_events[cell]
                sums[GROUPS + group[b]] += rate[cell] * waited
    total = 0.0
    for i in range(GROUPS):
        came, expected = sums[i], sums[GROUPS + i]
        spread = together * ((max(came, expected) + expected) / 2.0 + together)
        total += (came - expected) * (came - expected) / spread
    return total / GROUPS
