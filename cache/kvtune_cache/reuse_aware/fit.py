"""Fit the hazard of every class by age, and from it the index by which cells are ranked.

The hazard (touches a second of a block that is still waiting) of a cell is a Poisson rate. All classes
together give the pool's by bin of age; each axis multiplies it by a factor of its level and the age group
(main effects, shrunk to 1); a cell's own events speak against this expectation as far as they outweigh it.
Blocks of one request come back together, so that events count by the design effect of cluster samples (Kish,
"Survey Sampling", 1965: sum of squared cluster sizes over their sum).

The index is Gittins': the most hits for a second of a block's room that any time of holding it gives
(Gittins, "Bandit processes and dynamic allocation indices", 1979). Held to the end of bin j, a block gives
the chance of a touch by then, and takes the mean of the time until touch or end."""

import math
from typing import Final

from kvtune_cache.blocks import Integers
from kvtune_cache.reuse_aware.cells import replay
from kvtune_cache.reuse_aware.classes import AXES, HINTS, LEVELS, hint_prior
from kvtune_cache.reuse_aware.state import AGES, BINS, GROUPS, SPREAD, USED, Classes, Reuse, Scratch
from kvtune_cache.signals import Floats

POOL_EVENTS: Final = 1.0
"""Clusters of events that the pool's prior hazard weighs."""

COLD_CHANCE: Final = 0.15
COLD_SECONDS: Final = 2.0
"""The pool's prior hazard falls as COLD_CHANCE / (age + COLD_SECONDS) does from that of the bin before, so
that a cold start, and ages at which nothing was seen to come back, order blocks as LRU does."""

LEAST_EFFECT_EVENTS, MOST_EFFECT_EVENTS = 0.5, 8.0
CELL_EVENTS: Final = 30.0
"""Prior weights in clusters: of an effect's 1, the more the less the levels of its axis differ; of a cell's
expectation."""

SPREAD_EVENTS: Final = 20.0
"""Blocks by which a class' design effect is shrunk to that of all."""

SWEEPS: Final = 3
LEAST_FACTOR, MOST_FACTOR = 0.02, 50.0
MOST_HAZARD: Final = 30.0
"""Touches expected in one bin beyond which more make no difference."""


def fit(reuse: Reuse) -> None:
    """Fit all of it to the events and the exposure as they stand."""
    _fit_spread(reuse)
    _fit_pool(reuse)
    _fit_effects(reuse)
    for slot in range(reuse.numbers[USED]):
        index_cells(reuse, slot)
    replay(reuse)


def spread_of(reuse: Reuse, slot: int) -> float:
    """Tell the design effect of a class."""
    classes = reuse.classes
    squares = classes.cluster_squares[slot] + SPREAD_EVENTS * reuse.reals[SPREAD]
    return squares / (classes.cluster[slot] + SPREAD_EVENTS)


def _fit_spread(reuse: Reuse) -> None:
    blocks, squares = 0.0, 0.0
    for slot in range(reuse.numbers[USED]):
        blocks += reuse.classes.cluster[slot]
        squares += reuse.classes.cluster_squares[slot]
    reuse.reals[SPREAD] = squares / blocks if blocks > 0.0 else 1.0


def _fit_pool(reuse: Reuse) -> None:
    """Fit the pool's hazard, and part the ages into groups of like many events."""
    cells, classes = reuse.cells, reuse.classes
    events, exposure = reuse.scratch.gains, reuse.scratch.costs
    total, before = 0.0, 0.0
    weight = POOL_EVENTS * max(1.0, reuse.reals[SPREAD])
    for b in range(AGES):
        events[b] = 0.0
        exposure[b] = 0.0
        for slot in range(reuse.numbers[USED]):
            events[b] += cells.events[slot * BINS + b]
            exposure[b] += cells.exposure[slot * BINS + b]
        middle = (classes.edges[b] + classes.edges[b + 1]) / 2.0
        cold = COLD_CHANCE / (middle + COLD_SECONDS)
        prior = classes.pool[b - 1] * cold / before if b > 0 else cold
        before = cold
        classes.pool[b] = (events[b] + weight) / (exposure[b] + weight / prior)
        total += events[b] + 1e-6
    before = 0.0
    for b in range(AGES):
        classes.group[b] = min(GROUPS - 1, int(before / total * GROUPS))
        before += events[b] + 1e-6


def _fit_effects(reuse: Reuse) -> None:
    """Fit the factors of all axes by turns, each given the others."""
    classes, scratch, used = reuse.classes, reuse.scratch, reuse.numbers[USED]
    _group_events(reuse)
    for i in range(AXES * LEVELS * GROUPS):
        classes.effects[i] = prior_effect(i)
    for _ in range(SWEEPS):
        for axis in range(AXES):
            if _varies(classes.levels, axis, used):
                _sum_levels(reuse, axis)
                _fit_axis(classes.effects, scratch, axis, reuse.reals[SPREAD])
                _apply_axis(classes, scratch, axis, used)


def prior_effect(i: int) -> float:
    """Tell what an effect is before anything is learned."""
    if i < HINTS * LEVELS * GROUPS:
        return 1.0
    return hint_prior(i // GROUPS - HINTS * LEVELS)


def _group_events(reuse: Reuse) -> None:
    """Sum up events and what the pool expects, by slot and age group."""
    cells, classes, scratch = reuse.cells, reuse.classes, reuse.scratch
    for slot in range(reuse.numbers[USED]):
        for i in range(slot * GROUPS, slot * GROUPS + GROUPS):
            scratch.events[i] = 0.0
            scratch.expected[i] = 0.0
            scratch.factor[i] = hint_prior(classes.levels[slot * AXES + HINTS])
        for b in range(AGES):
            i = slot * GROUPS + classes.group[b]
            scratch.events[i] += cells.events[slot * BINS + b]
            scratch.expected[i] += cells.exposure[slot * BINS + b] * classes.pool[b]


def _varies(levels: Integers, axis: int, used: int) -> bool:
    """Tell whether the classes in use have more than one level of an axis."""
    varies = False
    for slot in range(1, used):
        varies = varies or levels[slot * AXES + axis] != levels[axis]
    return varies


def _sum_levels(reuse: Reuse, axis: int) -> None:
    """Sum up events, expected events and events by design effect, by level of an axis and age group."""
    sums, levels = reuse.scratch.sums, reuse.classes.levels
    events, expected, factor = reuse.scratch.events, reuse.scratch.expected, reuse.scratch.factor
    size = LEVELS * GROUPS
    for i in range(3 * size):
        sums[i] = 0.0
    for slot in range(reuse.numbers[USED]):
        spread = spread_of(reuse, slot)
        at = levels[slot * AXES + axis] * GROUPS
        for i in range(slot * GROUPS, slot * GROUPS + GROUPS):
            if expected[i] > 0.0:
                sums[size + at] += expected[i] * factor[i]
                if events[i] > 0.0:
                    sums[at] += events[i]
                    sums[2 * size + at] += spread * events[i]
            at += 1


def _fit_axis(effects: Floats, scratch: Scratch, axis: int, spread: float) -> None:
    """Fit the factors of an axis; what they change by stays in the third part of the sums."""
    sums, size = scratch.sums, LEVELS * GROUPS
    clusters = _clusters_to_outweigh(effects, scratch, axis, spread)
    for i in range(size):
        weight = clusters * _together(sums, i, spread)
        before = effects[axis * size + i]
        after = (sums[i] + weight) / (sums[size + i] / before + weight / prior_effect(axis * size + i))
        effects[axis * size + i] = after
        sums[2 * size + i] = after / before


def _together(sums: Floats, i: int, spread: float) -> float:
    """Tell the design effect of the events of a level and age group."""
    return sums[2 * LEVELS * GROUPS + i] / sums[i] if sums[i] > 0.0 else spread


def _clusters_to_outweigh(effects: Floats, scratch: Scratch, axis: int, spread: float) -> float:
    """Weigh the prior of an axis' effects by how much more than by chance its levels differ.

    The variance of the effects is what Pearson's statistic has above its expectation (empirical Bayes by
    moments: DerSimonian and Laird, "Meta-analysis in clinical trials", 1986); its inverse is the weight.
    """
    sums, size = scratch.sums, LEVELS * GROUPS
    excess, information, cells = 0.0, 0.0, 0
    for i in range(size):
        at = axis * size + i
        expected = sums[size + i] / effects[at] * prior_effect(at)
        together = _together(sums, i, spread)
        if expected > together:
            excess += (sums[i] - expected) * (sums[i] - expected) / (expected * together) - 1.0
            information += expected / together
            cells += 1
    if cells < 2:
        return LEAST_EFFECT_EVENTS
    if excess * MOST_EFFECT_EVENTS <= information:
        return MOST_EFFECT_EVENTS
    return max(LEAST_EFFECT_EVENTS, information / excess)


def _apply_axis(classes: Classes, scratch: Scratch, axis: int, used: int) -> None:
    factor, sums = scratch.factor, scratch.sums
    for slot in range(used):
        at = 2 * LEVELS * GROUPS + classes.levels[slot * AXES + axis] * GROUPS
        for i in range(slot * GROUPS, slot * GROUPS + GROUPS):
            factor[i] *= sums[at]
            at += 1


def factor_of(classes: Classes, slot: int, group: int) -> float:
    """Multiply the effects of a class' levels in an age group."""
    factor = 1.0
    for axis in range(AXES):
        level = classes.levels[slot * AXES + axis]
        factor *= classes.effects[(axis * LEVELS + level) * GROUPS + group]
    return min(MOST_FACTOR, max(LEAST_FACTOR, factor))


def hazard(reuse: Reuse, slot: int, b: int, weight: float, factor: float) -> float:
    """Weigh a cell's own events against what its levels lead to expect, `weight` events strong."""
    cells, cell = reuse.cells, slot * BINS + b
    expected = reuse.classes.pool[b] * factor
    return (cells.events[cell] + weight) / (cells.exposure[cell] + weight / expected)


def index_cells(reuse: Reuse, slot: int) -> None:
    """Work out the index of all cells of a class.

    From the last bin to the first: what follows a bin is kept as stretches of falling worth, and a bin takes
    in the next stretch as long as that is worth more than what it has, so that it ends up with the best
    horizon."""
    classes, cells, scratch = reuse.classes, reuse.cells, reuse.scratch
    gains, costs, lasts = scratch.gains, scratch.costs, scratch.lasts
    weight = CELL_EVENTS * spread_of(reuse, slot)
    top, group, factor = AGES, -1, 1.0
    for k in range(AGES):
        b = AGES - 1 - k
        if classes.group[b] != group:
            group = classes.group[b]
            factor = factor_of(classes, slot, group)
        rate = hazard(reuse, slot, b, weight, factor)
        cells.rate[slot * BINS + b] = rate
        width = classes.edges[b + 1] - classes.edges[b]
        due = min(MOST_HAZARD, rate * width)
        last = math.exp(-due)
        gain = 1.0 - last if last < 1.0 else due  # the same where e^-x is 1 for all that a float can tell
        cost = gain / rate
        while top < AGES and gains[top] * cost > gain * costs[top]:
            gain += last * gains[top]
            cost += last * costs[top]
            last *= lasts[top]
            top += 1
        top -= 1
        gains[top], costs[top], lasts[top] = gain, cost, last
        cells.worth[slot * BINS + b] = gain / cost
