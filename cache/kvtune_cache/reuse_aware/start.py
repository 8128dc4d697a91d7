"""Make and clear the state of ReuseAware."""

from kvtune_cache.blocks import NO_BLOCK
from kvtune_cache.reuse_aware.cells import clear_cells
from kvtune_cache.reuse_aware.classes import AXES, CLASSES, LEVELS
from kvtune_cache.reuse_aware.cohorts import clear_cohorts
from kvtune_cache.reuse_aware.fit import fit
from kvtune_cache.reuse_aware.rival import clear_rival
from kvtune_cache.reuse_aware.state import (
    AGES,
    BINS,
    CELLS,
    FREE,
    GROUPS,
    NUMBERS,
    OPEN,
    REALS,
    ROOT,
    SLOTS,
    Blocks,
    Cells,
    Classes,
    Cohorts,
    Reuse,
    Scratch,
    age_edges,
)


def plain_reuse(blocks: int) -> Reuse:
    """Make the state of lists for block numbers below `blocks`; of 0 blocks, a small one, not to be used."""
    slots = SLOTS if blocks else 0
    reuse = Reuse(
        _blocks(blocks, CELLS + 1 if blocks else 0),
        _cohorts(blocks + 1),
        _cells(CELLS if blocks else 0, 2 * CELLS if blocks else 0),
        _classes(CLASSES if blocks else 0, slots),
        _scratch(slots),
        [0] * NUMBERS,
        [0.0] * REALS,
    )
    if blocks:
        clear_blocks(reuse)
        fit(reuse)
    return reuse


def clear_blocks(reuse: Reuse) -> None:
    """Know no block any longer; what was learned of classes stays."""
    blocks, cells, classes = reuse.blocks, reuse.cells, reuse.classes
    for x in range(len(blocks.cohort)):
        blocks.marks[x] = 0
        blocks.parent[x] = NO_BLOCK
        blocks.children[x] = 0
    for cell in range(CELLS):
        cells.waiting[cell] = 0
    for slot in range(SLOTS):
        classes.newest[slot] = 0
    for k in range(OPEN):
        reuse.scratch.open_samples[k] = 0
        reuse.scratch.open_cohort[k] = 0
    clear_cells(blocks, cells)
    clear_cohorts(blocks, reuse.cohorts)
    clear_rival(reuse)
    reuse.numbers[FREE] = 1
    if reuse.numbers[ROOT] == 0:
        reuse.numbers[ROOT] = CELLS


def _blocks(blocks: int, ends: int) -> Blocks:
    return Blocks(
        cohort=[0] * blocks,
        marks=[0] * blocks,
        parent=[NO_BLOCK] * blocks,
        children=[0] * blocks,
        newer=[0] * (blocks + ends),
        older=[0] * (blocks + ends),
        rival_newer=[0] * (blocks + min(ends, 1)),
        rival_older=[0] * (blocks + min(ends, 1)),
    )


def _cohorts(cohorts: int) -> Cohorts:
    return Cohorts(
        started=[0.0] * cohorts,
        cell=[0] * cohorts,
        members=[0] * cohorts,
        alive=[0] * cohorts,
        later=[0] * (cohorts + AGES),
        earlier=[0] * (cohorts + AGES),
    )


def _cells(cells: int, nodes: int) -> Cells:
    return Cells(
        events=[0.0] * cells,
        exposure=[0.0] * cells,
        waiting=[0] * cells,
        seen_events=[0.0] * cells,
        seen_exposure=[0.0] * cells,
        rate=[0.0] * cells,
        worth=[0.0] * cells,
        key=[0.0] * cells,
        following=[0] * (cells + BINS),
        preceding=[0] * (cells + BINS),
        due=[0.0] * AGES,
        winners=[-1] * nodes,
    )


def _classes(classes: int, slots: int) -> Classes:
    return Classes(
        slot=[-1] * classes,
        number=[0] * slots,
        levels=[0] * (slots * AXES),
        newest=[0] * slots,
        cluster=[0.0] * slots,
        cluster_squares=[0.0] * slots,
        effects=[1.0] * (AXES * LEVELS * GROUPS),
        pool=[0.0] * AGES,
        group=[0] * AGES,
        edges=age_edges(),
    )


def _scratch(slots: int) -> Scratch:
    return Scratch(
        events=[0.0] * (slots * GROUPS),
        expected=[0.0] * (slots * GROUPS),
        factor=[0.0] * (slots * GROUPS),
        sums=[0.0] * (3 * LEVELS * GROUPS),
        gains=[0.0] * AGES,
        costs=[0.0] * AGES,
        lasts=[0.0] * AGES,
        open_cohort=[0] * OPEN,
        open_slot=[0] * OPEN,
        open_samples=[0] * OPEN,
    )
