"""Cohorts: blocks touched by one request in one class, counted together and growing older together.

What is learned of a wait is where it ended (events) and how long it lasted in each cell (exposure). Exposure
is counted at the ends alone: a stay from `a` to `b` adds b - a, both measured from `reals[BASE]`, and what
still waits is settled before each fit."""

from kvtune_cache.reuse_aware.cells import age_leaves, set_root
from kvtune_cache.reuse_aware.classes import AXES, TOLD, put_levels
from kvtune_cache.reuse_aware.fit import index_cells
from kvtune_cache.reuse_aware.state import (
    AGES,
    BASE,
    BINS,
    FREE,
    NO_COHORT,
    SAMPLED,
    TELLING,
    USED,
    Blocks,
    Cells,
    Cohorts,
    Reuse,
)


def grow_older(reuse: Reuse, now: float) -> None:
    """Move every cohort on to the bin of its age."""
    cohorts, edges = reuse.cohorts, reuse.classes.edges
    count = len(cohorts.started)
    for b in range(AGES - 1):
        c = cohorts.earlier[count + b]
        while c < count and cohorts.started[c] + edges[b + 1] <= now:
            _cross(reuse, c, cohorts.started[c] + edges[b + 1] - reuse.reals[BASE])
            c = cohorts.earlier[count + b]


def _cross(reuse: Reuse, c: int, at: float) -> None:
    """Move the oldest cohort of a bin on to the next bin."""
    cohorts, cells = reuse.cohorts, reuse.cells
    cell, alive = cohorts.cell[c], cohorts.alive[c]
    cells.waiting[cell] -= alive
    cells.waiting[cell + 1] += alive
    cells.exposure[cell] += alive * at
    cells.exposure[cell + 1] -= alive * at
    cohorts.cell[c] = cell + 1
    leave_queue(cohorts, c)
    _join_queue(cohorts, c, (cell + 1) % BINS)
    if reuse.blocks.newer[len(reuse.blocks.cohort) + cell] < len(reuse.blocks.cohort):
        age_leaves(reuse, cell)


def cohort_of(reuse: Reuse, number: int, now: float) -> int:
    """Give the cohort of a class and this moment, a new one where there is none."""
    cohorts, classes = reuse.cohorts, reuse.classes
    slot = cohort_slot(reuse, number)
    cell = slot * BINS
    c = classes.newest[slot]
    if c != NO_COHORT and cohorts.members[c] > 0 and cohorts.cell[c] == cell and cohorts.started[c] == now:
        return c
    c = reuse.numbers[FREE]
    reuse.numbers[FREE] = cohorts.later[c]
    cohorts.started[c] = now
    cohorts.cell[c] = cell
    cohorts.members[c] = 0
    cohorts.alive[c] = 0
    _join_queue(cohorts, c, 0)
    classes.newest[slot] = c
    return c


def part(reuse: Reuse, x: int) -> None:
    """Take a block out of its cohort, its wait neither ended nor counted any longer than up to now."""
    cohorts = reuse.cohorts
    c = reuse.blocks.cohort[x]
    if reuse.blocks.marks[x] & SAMPLED:
        cohorts.alive[c] -= 1
    cohorts.members[c] -= 1
    if cohorts.members[c] == 0:
        leave_queue(cohorts, c)
        cohorts.later[c] = reuse.numbers[FREE]
        reuse.numbers[FREE] = c
    reuse.blocks.cohort[x] = NO_COHORT


def end_wait(cells: Cells, cell: int, at: float) -> None:
    """Count the end of one sampled block's stay in a cell."""
    cells.waiting[cell] -= 1
    cells.exposure[cell] += at


def settle(reuse: Reuse, now: float) -> None:
    """Count the exposure of all that waits up to now."""
    cells, reals = reuse.cells, reuse.reals
    passed = now - reals[BASE]
    for cell in range(reuse.numbers[USED] * BINS):
        if cells.waiting[cell] != 0:
            cells.exposure[cell] += cells.waiting[cell] * passed
    reals[BASE] = now


def leave_queue(cohorts: Cohorts, c: int) -> None:
    """Take a cohort out of the queue of its bin."""
    later, earlier = cohorts.later[c], cohorts.earlier[c]
    cohorts.earlier[later] = earlier
    cohorts.later[earlier] = later


def _join_queue(cohorts: Cohorts, c: int, b: int) -> None:
    """Make a cohort the last of a bin's queue: `earlier` of the end is the first, that which leaves next."""
    end = len(cohorts.started) + b
    last = cohorts.later[end]
    cohorts.later[c] = last
    cohorts.earlier[c] = end
    cohorts.earlier[last] = c
    cohorts.later[end] = c


def cohort_slot(reuse: Reuse, number: int) -> int:
    """Find the slot of a class, a new one where it was never seen."""
    classes, numbers = reuse.classes, reuse.numbers
    if classes.slot[number] >= 0:
        return classes.slot[number]
    if numbers[USED] >= TELLING and number % TOLD != 0:
        untold = number - number % TOLD
        if classes.slot[untold] < 0:
            _take_slot(reuse, untold)
        classes.slot[number] = classes.slot[untold]
    else:
        _take_slot(reuse, number)
    return classes.slot[number]


def _take_slot(reuse: Reuse, number: int) -> None:
    """Give a class a slot of its own, and its cells an index by what is known of its levels."""
    classes, numbers = reuse.classes, reuse.numbers
    slot = numbers[USED]
    numbers[USED] = slot + 1
    classes.slot[number] = slot
    classes.number[slot] = number
    put_levels(classes.levels, slot * AXES, number)
    set_root(reuse)
    index_cells(reuse, slot)


def clear_cohorts(blocks: Blocks, cohorts: Cohorts) -> None:
    """Empty all queues."""
    count = len(cohorts.started)
    for x in range(len(blocks.cohort)):
        blocks.cohort[x] = NO_COHORT
    for c in range(count):
        cohorts.later[c] = c + 1 if c + 1 < count else NO_COHORT
        cohorts.members[c] = 0
    for b in range(AGES):
        cohorts.later[count + b] = count + b
        cohorts.earlier[count + b] = count + b
