"""What WorkloadAware learns of its classes: how likely a block is reused, and when.

Online, from one block of `sampled_of`, chosen by hash, whether it is resident or not. Each sampled access
is remembered in a ring until its block is accessed again (a reuse after so long) or the horizon has passed
(no reuse); a full ring makes the horizon as short as it is. Of a class are known the share of accesses that
are reused and the mean interval: an exponential, to which the preset is a prior. Where that fits poorly, a
histogram of the intervals takes its place.
"""

import math
from typing import Final, NamedTuple

from kvtune_cache.blocks import Integers
from kvtune_cache.eviction.queues import QUEUES
from kvtune_cache.eviction.workload_rules import (
    HORIZON,
    MEMORY,
    POOR_FIT,
    PRIOR_WEIGHT,
    REUSE_RATE,
    REUSE_SHARE,
    SAMPLED_OF,
)
from kvtune_cache.signals import Floats

BINS: Final = 26
FIRST_EDGE: Final = 0.5
EDGE_FACTOR: Final = 2.0**0.5
"""Bin b > 0 of intervals begins at FIRST_EDGE * EDGE_FACTOR^(b-1) seconds; the last one at 2,048 s."""

LARGEST_RING: Final = 16384
REFIT_REUSES: Final = 64
"""A class is compared with its histogram after each so many reuses."""

REUSED: Final = 0
SECONDS: Final = 1
RETURNED: Final = 2
IDLED: Final = 3
RATE: Final = 4
SHARE: Final = 5
POOR: Final = 6
LEARNED: Final = 7
"""Fields of `learned`: reuses; seconds of their intervals; of the accesses whose horizon has passed, those
that were reused in it and those that were not; the fit's rate per second; its share of accesses that are
reused; 1 where the histogram takes its place."""

AGAIN: Final = -1
FORGOTTEN: Final = -2

OLDEST: Final = 0
HELD: Final = 1
RING_FIELDS: Final = 2


class Fit(NamedTuple):
    """What is known of QUEUES classes, and the sampled accesses that are open."""

    learned: Floats
    """LEARNED numbers a class."""

    counts: Floats
    """BINS counts of reuse intervals a class."""

    survival: Floats
    """BINS + 1 shares of a class's reuses whose interval is longer than each bin's start, and 0."""

    open_at: Integers
    """n ring places + 1 of the sampled accesses whose reuse is awaited; 0: none."""

    ring_blocks: Integers
    """The block of each access; AGAIN: it was reused; FORGOTTEN: its number was given to another block."""

    ring_classes: Integers
    ring_times: Floats
    ring: Integers
    """RING_FIELDS numbers: where the oldest open access stands, and how many there are."""


def plain_fit(blocks: int, settings: list[float]) -> Fit:
    """Make a fit of lists in which every class starts from the preset."""
    room = min(LARGEST_RING, QUEUES + 4 * blocks)
    start = [0.0, 0.0, 0.0, 0.0, settings[REUSE_RATE], settings[REUSE_SHARE], 0.0]
    return Fit(
        learned=start * QUEUES,
        counts=[0.0] * (BINS * QUEUES),
        survival=[0.0] * ((BINS + 1) * QUEUES),
        open_at=[0] * blocks,
        ring_blocks=[0] * room,
        ring_classes=[0] * room,
        ring_times=[0.0] * room,
        ring=[0] * RING_FIELDS,
    )


def is_sampled(settings: Floats, x: int) -> bool:
    """Say whether reuse is learnt from block x: a hash of its number, the same in every run."""
    return ((x + 1) * 2654435761 >> 15) % 1048576 % int(settings[SAMPLED_OF]) == 0


def learn(fit: Fit, settings: Floats, x: int, k: int, now: float) -> None:
    """Learn from an access to the sampled block x in class k.

    Whether an access was reused counts when its horizon has passed, so that short intervals count no earlier
    than long ones.
    """
    ring, size = fit.ring, len(fit.ring_blocks)
    earliest = now - settings[HORIZON]
    while ring[HELD] == size or (ring[HELD] > 0 and fit.ring_times[ring[OLDEST]] < earliest):
        _close(fit, settings)
    at = fit.open_at[x] - 1
    if at >= 0:
        fit.ring_blocks[at] = AGAIN
        _reused(fit, settings, fit.ring_classes[at], now - fit.ring_times[at])
    at = (ring[OLDEST] + ring[HELD]) % size
    fit.ring_blocks[at] = x
    fit.ring_classes[at] = k
    fit.ring_times[at] = now
    fit.open_at[x] = at + 1
    ring[HELD] += 1


def forget_access(fit: Fit, x: int) -> None:
    """Await no reuse of x: its number is given to another block."""
    if fit.open_at[x] > 0:
        fit.ring_blocks[fit.open_at[x] - 1] = FORGOTTEN
        fit.open_at[x] = 0


def p_reuse(fit: Fit, k: int, age: float, ahead: float) -> float:
    """Give the probability that a block of class k, idle for `age` seconds, is reused in the next `ahead`.

    With share p and survival S of the reuse intervals: p (S(age) - S(age + ahead)) / (p S(age) + 1 - p),
    which is the study's form divided by the share of blocks that are still idle at this age.
    """
    share = fit.learned[k * LEARNED + SHARE]
    alive = _survival(fit, k, age)
    later = _survival(fit, k, age + ahead)
    return share * (alive - later) / (share * alive + 1.0 - share)


def _close(fit: Fit, settings: Floats) -> None:
    """Take the oldest access out of the ring, and count whether it was reused."""
    at = fit.ring[OLDEST]
    k, x = fit.ring_classes[at], fit.ring_blocks[at]
    fit.ring[OLDEST] = (at + 1) % len(fit.ring_blocks)
    fit.ring[HELD] -= 1
    fit.learned[k * LEARNED + (RETURNED if x == AGAIN else IDLED)] += 1.0
    if x >= 0:
        fit.open_at[x] = 0
    _conclude(fit, settings, k)


def _reused(fit: Fit, settings: Floats, k: int, interval: float) -> None:
    """Count the interval of a reuse, and compare the exponential with the histogram from time to time."""
    at = k * LEARNED
    fit.learned[at + REUSED] += 1.0
    fit.learned[at + SECONDS] += interval
    fit.counts[k * BINS + _bin(interval)] += 1.0
    _conclude(fit, settings, k)
    if int(fit.learned[at + REUSED]) % REFIT_REUSES == 0:
        _compare(fit, settings, k)


def _conclude(fit: Fit, settings: Floats, k: int) -> None:
    """Work out rate and share of a class, the preset being a prior; forget half where enough is known."""
    learned, at, weight = fit.learned, k * LEARNED, settings[PRIOR_WEIGHT]
    if learned[at + REUSED] >= settings[MEMORY]:
        learned[at + REUSED] *= 0.5
        learned[at + SECONDS] *= 0.5
        for b in range(BINS):
            fit.counts[k * BINS + b] *= 0.5
    if learned[at + RETURNED] + learned[at + IDLED] >= settings[MEMORY]:
        learned[at + RETURNED] *= 0.5
        learned[at + IDLED] *= 0.5
    reused, seconds = learned[at + REUSED] + weight, learned[at + SECONDS] + weight / settings[REUSE_RATE]
    known = learned[at + RETURNED] + learned[at + IDLED] + weight
    learned[at + RATE] = reused / seconds
    learned[at + SHARE] = (learned[at + RETURNED] + weight * settings[REUSE_SHARE]) / known


def _compare(fit: Fit, settings: Floats, k: int) -> None:
    """Work out the survival by the histogram; use it where the exponential is too far from it."""
    total = 0.0
    for b in range(BINS):
        total += fit.counts[k * BINS + b]
    rate, left, edge, distance = fit.learned[k * LEARNED + RATE], total, 0.0, 0.0
    for b in range(BINS):
        survival = left / total
        fit.survival[k * (BINS + 1) + b] = survival
        distance = max(distance, abs(survival - math.exp(-rate * edge)))
        left = max(0.0, left - fit.counts[k * BINS + b])
        edge = FIRST_EDGE if b == 0 else edge * EDGE_FACTOR
    fit.survival[k * (BINS + 1) + BINS] = 0.0
    fit.learned[k * LEARNED + POOR] = 1.0 if distance > settings[POOR_FIT] else 0.0


def _survival(fit: Fit, k: int, age: float) -> float:
    """Give the share of a class's reuses whose interval is longer than `age`."""
    if fit.learned[k * LEARNED + POOR] == 0.0:
        return math.exp(-fit.learned[k * LEARNED + RATE] * age)
    b, start, end = 0, 0.0, FIRST_EDGE
    while b < BINS - 1 and age >= end:
        b, start, end = b + 1, end, end * EDGE_FACTOR
    at = k * (BINS + 1) + b
    part = min(1.0, (age - start) / (end - start))
    return fit.survival[at] + (fit.survival[at + 1] - fit.survival[at]) * part


def _bin(interval: float) -> int:
    """Find the bin of an interval."""
    b, end = 0, FIRST_EDGE
    while b < BINS - 1 and interval >= end:
        b, end = b + 1, end * EDGE_FACTOR
    return b
