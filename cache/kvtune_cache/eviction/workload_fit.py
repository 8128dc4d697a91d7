"""What WorkloadAware learns of its classes: how likely a block is reused, and when.

Online, from one block of `sampled_of`, chosen by hash, whether it is resident or not. Each sampled access
is remembered in a ring until its block is accessed again (a reuse after so long) or the horizon has passed
(no reuse); when the ring is full the oldest is forgotten and counts as neither. Of a class are known the
share of accesses that are reused and the mean interval: an exponential, to which the preset is a prior. Where
that fits poorly, a histogram of the intervals takes its place.
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

LARGEST_RING: Final = 8192
REFIT_REUSES: Final = 64
FEWEST_REUSES: Final = 64
"""A class is compared with its histogram after each REFIT_REUSES, and from FEWEST_REUSES on."""

REUSED: Final = 0
IDLED: Final = 1
SECONDS: Final = 2
RATE: Final = 3
SHARE: Final = 4
POOR: Final = 5
LEARNED: Final = 6
"""Fields of `learned`: reuses; accesses without one; seconds of all reuse intervals; the fit's rate per
second; its share of accesses that are reused; 1 where the histogram takes its place."""

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

    ring_blocks: Integers
    ring_times: Floats
    ring: Integers
    """RING_FIELDS numbers: where the oldest open access stands, and how many there are."""


def plain_fit(blocks: int, settings: list[float]) -> Fit:
    """Make a fit of lists in which every class starts from the preset."""
    room = min(LARGEST_RING, QUEUES + 4 * blocks)
    start = [0.0, 0.0, 0.0, settings[REUSE_RATE], settings[REUSE_SHARE], 0.0]
    return Fit(
        learned=start * QUEUES,
        counts=[0.0] * (BINS * QUEUES),
        survival=[0.0] * ((BINS + 1) * QUEUES),
        ring_blocks=[0] * room,
        ring_times=[0.0] * room,
        ring=[0] * RING_FIELDS,
    )


def is_sampled(settings: Floats, x: int) -> bool:
    """Say whether reuse is learnt from block x: a hash of its number, the same in every run."""
    return ((x + 1) * 2654435761 >> 15) % 1048576 % int(settings[SAMPLED_OF]) == 0


def learn(fit: Fit, settings: Floats, classes: Integers, last: Floats, x: int, now: float) -> None:
    """Learn from an access to a sampled block, before its class and time are those of now."""
    ring, size = fit.ring, len(fit.ring_blocks)
    while ring[HELD] > 0 and fit.ring_times[ring[OLDEST]] < now - settings[HORIZON]:
        y = fit.ring_blocks[ring[OLDEST]]
        if last[y] == fit.ring_times[ring[OLDEST]]:
            fit.learned[(classes[y] - 1) * LEARNED + IDLED] += 1.0
            _conclude(fit, settings, classes[y] - 1)
        _forget_oldest(fit)
    if classes[x] > 0 and ring[HELD] > 0 and last[x] >= fit.ring_times[ring[OLDEST]]:
        _reused(fit, settings, classes[x] - 1, now - last[x])
    if ring[HELD] == size:
        _forget_oldest(fit)
    at = (ring[OLDEST] + ring[HELD]) % size
    fit.ring_blocks[at] = x
    fit.ring_times[at] = now
    ring[HELD] += 1


def p_reuse(fit: Fit, k: int, age: float, ahead: float) -> float:
    """Give the probability that a block of class k, idle for `age` seconds, is reused in the next `ahead`.

    With share p and survival S of the reuse intervals: p (S(age) - S(age + ahead)) / (p S(age) + 1 - p),
    which is the study's form divided by the share of blocks that are still idle at this age.
    """
    share = fit.learned[k * LEARNED + SHARE]
    alive = _survival(fit, k, age)
    later = _survival(fit, k, age + ahead)
    return share * (alive - later) / (share * alive + 1.0 - share)


def _forget_oldest(fit: Fit) -> None:
    """Take the oldest access out of the ring."""
    fit.ring[OLDEST] = (fit.ring[OLDEST] + 1) % len(fit.ring_blocks)
    fit.ring[HELD] -= 1


def _reused(fit: Fit, settings: Floats, k: int, interval: float) -> None:
    """Count a reuse, and compare the exponential with the histogram from time to time."""
    at = k * LEARNED
    fit.learned[at + REUSED] += 1.0
    fit.learned[at + SECONDS] += interval
    fit.counts[k * BINS + _bin(interval)] += 1.0
    _conclude(fit, settings, k)
    if int(fit.learned[at + REUSED]) % REFIT_REUSES == 0 and fit.learned[at + REUSED] >= FEWEST_REUSES:
        _compare(fit, settings, k)


def _conclude(fit: Fit, settings: Floats, k: int) -> None:
    """Work out rate and share of a class, the preset being a prior; forget half where enough is known."""
    learned, at, weight = fit.learned, k * LEARNED, settings[PRIOR_WEIGHT]
    known = learned[at + REUSED] + learned[at + IDLED]
    if known >= settings[MEMORY]:
        learned[at + REUSED] *= 0.5
        learned[at + IDLED] *= 0.5
        learned[at + SECONDS] *= 0.5
        for b in range(BINS):
            fit.counts[k * BINS + b] *= 0.5
        known *= 0.5
    reused = learned[at + REUSED]
    learned[at + RATE] = (reused + weight) / (learned[at + SECONDS] + weight / settings[REUSE_RATE])
    learned[at + SHARE] = (reused + weight * settings[REUSE_SHARE]) / (known + weight)


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
