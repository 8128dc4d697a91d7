"""Leaves in lists by cell, and the cell of least index among those that have any.

A list is circular through its end, the slot n + cell of the links; `newer` leads from the oldest leaf to the
newest. The tree over the cells is a tournament: each node names the better of its two children's cells, by
the worth of their oldest leaves, each at its own age.
"""

from typing import Final

from kvtune_cache.reuse_aware.state import (
    AGES,
    ASIDE,
    BINS,
    CELLS,
    FOLLOWING,
    LEAF,
    ROOT,
    SERVED_AT,
    USED,
    Blocks,
    Cells,
    Reuse,
)

NO_CELL: Final = -1
LOOK: Final = 0.125
"""Share of a bin by which its leaves age before their worth is looked at again."""

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
    count = len(blocks.cohort)
    blocks.newer[x] = newer
    blocks.older[x] = older
    blocks.older[newer] = x
    blocks.newer[older] = x
    blocks.marks[x] |= LEAF
    cell = older - count
    if 0 <= cell < ASIDE:
        if newer == older:
            fill(reuse, cell)
        else:
            _look_at_oldest(reuse, cell, blocks.newer[x])


def pull_leaf(reuse: Reuse, x: int) -> None:
    """Take a leaf out of its list."""
    blocks = reuse.blocks
    newer, older = blocks.newer[x], blocks.older[x]
    blocks.older[newer] = older
    blocks.newer[older] = newer
    blocks.marks[x] &= ~LEAF
    cell = older - len(blocks.cohort)
    if 0 <= cell < ASIDE:
        if newer == older:
            drain(reuse, cell)
        else:
            _look_at_oldest(reuse, cell, x)


def put_in_place_of(reuse: Reuse, x: int, leaf: int) -> bool:
    """Let x take the place of a leaf, if it was touched at the same time and has its cell; say if so."""
    blocks, cohorts = reuse.blocks, reuse.cohorts
    mine, its = blocks.cohort[x], blocks.cohort[leaf]
    if mine != its and (
        cohorts.cell[mine] != cohorts.cell[its] or cohorts.started[mine] != cohorts.started[its]
    ):
        return False
    newer, older = blocks.newer[leaf], blocks.older[leaf]
    blocks.newer[x] = newer
    blocks.older[x] = older
    blocks.older[newer] = x
    blocks.newer[older] = x
    blocks.marks[leaf] &= ~LEAF
    blocks.marks[x] |= LEAF
    return True


def _look_at_oldest(reuse: Reuse, cell: int, before: int) -> None:
    """Note a cell's new key, unless its oldest leaf is as old as the one before."""
    blocks, started = reuse.blocks, reuse.cohorts.started
    oldest = blocks.newer[len(blocks.cohort) + cell]
    if started[blocks.cohort[oldest]] != started[blocks.cohort[before]]:
        reuse.cells.key[cell] = key_of(reuse, cell)
        climb(reuse, cell)


def key_of(reuse: Reuse, cell: int) -> float:
    """Tell the worth of a cell's oldest leaf at its own age.

    Between the ages at which bins begin it is read off the straight line; where worth rises with age the
    younger leaves of the cell have no more than that of its beginning. While LRU is followed it is the
    time of the last touch instead.
    """
    if reuse.numbers[FOLLOWING] == 1:
        blocks = reuse.blocks
        oldest = blocks.newer[len(blocks.cohort) + cell]
        return reuse.cohorts.started[blocks.cohort[oldest]]
    worth, b = reuse.cells.worth[cell], cell % BINS
    if b < AGES - 1 and reuse.cells.worth[cell + 1] < worth:
        blocks, edges = reuse.blocks, reuse.classes.edges
        started = reuse.cohorts.started[blocks.cohort[blocks.newer[len(blocks.cohort) + cell]]]
        passed = (reuse.reals[SERVED_AT] - started - edges[b]) / (edges[b + 1] - edges[b])
        worth += min(1.0, max(0.0, passed)) * (reuse.cells.worth[cell + 1] - worth)
    return worth


def look_again(reuse: Reuse, now: float) -> None:
    """Bring the keys of those bins up to date whose leaves have aged by a part of the bin."""
    cells, edges = reuse.cells, reuse.classes.edges
    for b in range(AGES - 1):
        if cells.due[b] <= now:
            cells.due[b] = now + (edges[b + 1] - edges[b]) * LOOK
            _look_at_bin(reuse, b)


def _look_at_bin(reuse: Reuse, b: int) -> None:
    cells = reuse.cells
    cell = cells.following[CELLS + b]
    while cell < CELLS:
        key = key_of(reuse, cell)
        if key != cells.key[cell]:
            cells.key[cell] = key
            climb(reuse, cell)
        cell = cells.following[cell]


def fill(reuse: Reuse, cell: int) -> None:
    """Let a cell that has leaves now play in the tree."""
    cells = reuse.cells
    end = CELLS + cell % BINS
    first = cells.following[end]
    cells.following[cell] = first
    cells.preceding[cell] = end
    cells.preceding[first] = cell
    cells.following[end] = cell
    cells.winners[CELLS + cell] = cell
    cells.key[cell] = key_of(reuse, cell)
    climb(reuse, cell)


def drain(reuse: Reuse, cell: int) -> None:
    """Take a cell without leaves out of the tree."""
    cells = reuse.cells
    following, preceding = cells.following[cell], cells.preceding[cell]
    cells.following[preceding] = following
    cells.preceding[following] = preceding
    cells.winners[CELLS + cell] = NO_CELL
    climb(reuse, cell)


def climb(reuse: Reuse, cell: int) -> None:
    """Play the games of a cell anew, as far up as they may end otherwise than before."""
    cells, root = reuse.cells, reuse.numbers[ROOT]
    winners = cells.winners
    node = (CELLS + cell) >> 1
    while node >= root:
        before, after = winners[node], better(cells, winners[2 * node], winners[2 * node + 1])
        winners[node] = after
        if before != cell and after != cell:
            return
        node >>= 1


def better(cells: Cells, a: int, b: int) -> int:
    """Choose the cell of less worth, of equal ones the older bin; NO_CELL loses."""
    if a < 0:
        return b
    if b < 0 or cells.key[a] < cells.key[b]:
        return a
    if cells.key[a] == cells.key[b] and a % BINS > b % BINS:
        return a
    return b


def replay(reuse: Reuse) -> None:
    """Work out all keys and play all games anew, after the indexes have changed."""
    cells = reuse.cells
    winners = cells.winners
    for b in range(AGES):
        cell = cells.following[CELLS + b]
        while cell < CELLS:
            cells.key[cell] = key_of(reuse, cell)
            cell = cells.following[cell]
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
    for end in range(CELLS, CELLS + BINS):
        cells.following[end] = end
        cells.preceding[end] = end
