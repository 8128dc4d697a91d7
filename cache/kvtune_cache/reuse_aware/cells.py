"""Leaves in lists by cell, and the cell of least index among those that have any.

A list is circular through its end, the slot n + cell of the links; `newer` leads from the oldest leaf to the
newest. The tree over the cells is a tournament: each node names the better of its two children's cells.
"""

from typing import Final

from kvtune_cache.reuse_aware.state import (
    ASIDE,
    BINS,
    CELLS,
    LEAF,
    ROOT,
    USED,
    Blocks,
    Cells,
    Reuse,
)

NO_CELL: Final = -1
SEARCH: Final = 64
"""Leaves that a search for a place in order of age passes at most; it is a matter of ties within one cell."""


def push_leaf(reuse: Reuse, x: int, cell: int) -> None:
    """Make x the newest leaf of a cell; it must be in no list."""
    end = len(reuse.blocks.cohort) + cell
    _hang(reuse, x, end, reuse.blocks.older[end])


def place_leaf(reuse: Reuse, x: int) -> None:
    """Put x into the list of its cohort's cell in order of age; it must be in no list."""
    blocks, cohorts = reuse.blocks, reuse.cohorts
    end = len(blocks.cohort) + cohorts.cell[blocks.cohort[x]]
    started = cohorts.started[blocks.cohort[x]]
    newer, older = end, blocks.older[end]
    if older != end and cohorts.started[blocks.cohort[older]] > started:
        newer = blocks.newer[end]
        for _ in range(SEARCH):
            if cohorts.started[blocks.cohort[newer]] > started:
                break
            newer = blocks.newer[newer]
        older = blocks.older[newer]
    _hang(reuse, x, newer, older)


def _hang(reuse: Reuse, x: int, newer: int, older: int) -> None:
    """Link a leaf between two neighbours; where both are the same they are the end of an empty list."""
    blocks = reuse.blocks
    blocks.newer[x] = newer
    blocks.older[x] = older
    blocks.older[newer] = x
    blocks.newer[older] = x
    blocks.marks[x] |= LEAF
    if newer == older:
        cell = newer - len(blocks.cohort)
        if cell < ASIDE:
            fill(reuse, cell)


def pull_leaf(reuse: Reuse, x: int) -> None:
    """Take a leaf out of its list."""
    blocks = reuse.blocks
    newer, older = blocks.newer[x], blocks.older[x]
    blocks.older[newer] = older
    blocks.newer[older] = newer
    blocks.marks[x] &= ~LEAF
    if newer == older:
        cell = newer - len(blocks.cohort)
        if 0 <= cell < ASIDE:
            drain(reuse, cell)


def fill(reuse: Reuse, cell: int) -> None:
    """Let a cell that has leaves now play in the tree."""
    cells, root = reuse.cells, reuse.numbers[ROOT]
    winners = cells.winners
    node = CELLS + cell
    winners[node] = cell
    node >>= 1
    while node >= root and better(cells, cell, winners[node]) == cell:
        winners[node] = cell
        node >>= 1


def drain(reuse: Reuse, cell: int) -> None:
    """Take a cell without leaves out of the tree."""
    cells, root = reuse.cells, reuse.numbers[ROOT]
    winners = cells.winners
    node = CELLS + cell
    winners[node] = NO_CELL
    node >>= 1
    while node >= root and winners[node] == cell:
        winners[node] = better(cells, winners[2 * node], winners[2 * node + 1])
        node >>= 1


def better(cells: Cells, a: int, b: int) -> int:
    """Choose the cell of less index, of equal ones the older bin; NO_CELL loses."""
    if a < 0:
        return b
    if b < 0 or cells.worth[a] < cells.worth[b]:
        return a
    if cells.worth[a] == cells.worth[b] and a % BINS > b % BINS:
        return a
    return b


def replay(reuse: Reuse) -> None:
    """Play all games anew, after the indexes have changed."""
    cells = reuse.cells
    winners = cells.winners
    first, last = CELLS, CELLS + reuse.numbers[USED] * BINS - 1
    while first > reuse.numbers[ROOT]:
        first >>= 1
        last >>= 1
        for node in range(first, last + 1):
            winners[node] = better(cells, winners[2 * node], winners[2 * node + 1])


def set_root(reuse: Reuse) -> None:
    """Let the tree reach over all slots in use."""
    numbers, winners = reuse.numbers, reuse.cells.winners
    while CELLS // numbers[ROOT] < numbers[USED] * BINS:
        winners[numbers[ROOT] // 2] = winners[numbers[ROOT]]
        numbers[ROOT] //= 2


def age_leaves(reuse: Reuse, cell: int) -> None:
    """Move the oldest leaves of a cell on, as far as their cohorts have left it."""
    blocks, cohorts = reuse.blocks, reuse.cohorts
    count = len(blocks.cohort)
    x = blocks.newer[count + cell]
    while x < count and cohorts.cell[blocks.cohort[x]] != cell:
        pull_leaf(reuse, x)
        push_leaf(reuse, x, cohorts.cell[blocks.cohort[x]])
        x = blocks.newer[count + cell]


def oldest_leaf(reuse: Reuse) -> int:
    """Find the leaf that is to leave next; -1 when there is none."""
    cell = reuse.cells.winners[reuse.numbers[ROOT]]
    if cell < 0:
        return -1
    return reuse.blocks.newer[len(reuse.blocks.cohort) + cell]


def bring_back(reuse: Reuse) -> None:
    """Put the leaves that were passed over back into their cells."""
    blocks = reuse.blocks
    count = len(blocks.cohort)
    x = blocks.newer[count + ASIDE]
    while x < count:
        pull_leaf(reuse, x)
        place_leaf(reuse, x)
        x = blocks.newer[count + ASIDE]


def clear_cells(blocks: Blocks, cells: Cells) -> None:
    """Empty all lists of leaves and the tree."""
    count = len(blocks.cohort)
    for end in range(count, count + ASIDE + 1):
        blocks.newer[end] = end
        blocks.older[end] = end
    for node in range(2 * CELLS):
        cells.winners[node] = NO_CELL
