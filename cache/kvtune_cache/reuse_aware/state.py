"""What ReuseAware keeps: per block, per cohort, per cell and over all.

A *cell* is a class of touches in one bin of age: the time since the touch. A *cohort* is the blocks that one
request touched in one class at one time; it grows older as one, through the cells of its class. Resident
blocks without a resident child (leaves) hang in the list of their cohort's cell, oldest last.

Classes get a *slot* when they are first seen; cell number = slot * BINS + bin. All parts are lists, or arrays
of the same lengths for compiled callers."""

from typing import Final, NamedTuple

from kvtune_cache.blocks import Bytes, Integers
from kvtune_cache.reuse_aware.classes import UNTOLD
from kvtune_cache.signals import Floats

BINS: Final = 32
"""Cells from one slot to the next; the last two are not in use, so that a cell's slot and bin are bits of
it."""

AGES: Final = 30
"""Bins of age in use: the first .75 s, then 1.6 to an octave, the last one from 39 hours on without end."""

SLOTS: Final = 1024
"""Most classes that are told apart; what the caller tells is no longer looked at before room for all others
fails."""

TELLING: Final = SLOTS - UNTOLD
CELLS: Final = SLOTS * BINS
"""A power of two, which the tree over the cells needs."""

ASIDE: Final = CELLS
"""The list, numbered like a cell, of leaves that were passed over because they are pinned."""

GROUPS: Final = 16
"""Age groups of equal event mass, within which the effect of an axis is one factor."""

OPEN: Final = 6
"""Cohorts that one request can open: 3 counts of touches, 2 endings."""

NO_COHORT: Final = 0
"""Of a block that nobody remembers; cohorts are numbered from 1."""

FEW: Final = 7
ENDS: Final = 8
SAMPLED: Final = 16
LEAF: Final = 32
IN_RIVAL: Final = 64
"""Parts of `marks`: earlier touches, up to FEW_TOUCHES; among the last two of its request; learned from; a
leaf; LRU would have it."""


class Blocks(NamedTuple):
    """Per block; the links have CELLS + 1 slots more, which are the ends of the lists of leaves."""

    cohort: Integers
    marks: Bytes
    parent: Integers
    """The block before it in the request that took it in; -1 where there is none."""

    children: Integers
    """Resident blocks whose parent it is."""

    newer: Integers
    """Of a leaf its neighbour; of a block that has left and is remembered the number of its departure."""

    older: Integers

    rival_newer: Integers
    """Neighbours in the order of last touch of what LRU would have; slot n is the end."""

    rival_older: Integers


class Cohorts(NamedTuple):
    """Per cohort; the links have AGES + 1 slots more, which are the ends of the queues by bin of age."""

    started: Floats
    cell: Integers
    members: Integers
    alive: Integers
    """Members that are learned from."""

    later: Integers
    earlier: Integers


class Cells(NamedTuple):
    """Per cell of a class in use, and the tree that finds the cell of least index among those with leaves."""

    events: Floats
    """Touches that ended a wait in this cell."""

    exposure: Floats
    """Seconds that blocks waited in this cell, as of `reals[BASE]`."""

    waiting: Integers
    """Blocks that are waiting in it, of those that are learned from."""

    seen_events: Floats
    seen_exposure: Floats
    """Both as they stood at the last fit."""

    rate: Floats
    """Touches a second, as fitted."""

    worth: Floats
    """Hits to be had for a second of one block's room, at the age at which the bin begins."""

    key: Floats
    """Worth of the oldest leaf at its own age, as of the last look at it."""

    following: Integers
    preceding: Integers
    """Of a cell with leaves its neighbours in the ring of such cells of its bin; slots CELLS + bin are the
    ends."""

    due: Floats
    """Per bin of age: when to look again at the keys of its cells."""

    winners: Integers
    """Nodes 1 .. 2 * CELLS - 1: a cell or -1; the children of node i are 2 i and 2 i + 1."""


class Classes(NamedTuple):
    """Per class and slot, and what the last fit said of all."""

    slot: Integers
    """Per class: its slot, -1 where it was never seen."""

    number: Integers
    """Per slot: its class."""

    levels: Integers
    """Per slot AXES levels."""

    newest: Integers
    """Per slot: the cohort that was opened last."""

    cluster: Floats
    """Per slot: sum of the sampled blocks of one request in it."""

    cluster_squares: Floats
    effects: Floats
    """Per axis, level and age group: a factor on the pool's hazard."""

    pool: Floats
    """Per bin of age: touches a second of all classes together."""

    group: Integers
    """Per bin of age: its group."""

    edges: Floats
    """Seconds at which the bins begin; AGES + 1 of them."""


class Scratch(NamedTuple):
    """Working room of a fit, and the cohorts that the request being served has opened."""

    events: Floats
    expected: Floats
    factor: Floats
    sums: Floats
    gains: Floats
    costs: Floats
    lasts: Floats
    open_cohort: Integers
    open_slot: Integers
    open_samples: Integers


class Reuse(NamedTuple):
    """All of it."""

    blocks: Blocks
    cohorts: Cohorts
    cells: Cells
    classes: Classes
    scratch: Scratch
    numbers: Integers
    reals: Floats


USED, ROOT, FREE, REQUESTS, NEXT_FIT, THRESHOLD, CLASS, LAST, DEPARTURES, RETURNED = range(10)
RIVAL_SIZE, STARTLED, FOLLOWING, UNTIL, SPAN, OFTEN_UNTIL = range(10, 16)
NUMBERS: Final = 16
"""Slots of `numbers`: slots in use; root of the tree in use; first free cohort; requests; number of the
request that fits next; sampling threshold of 2^24; class part and last position of the request being
served; departures so far; waits of sampled blocks that the request being served has ended; blocks that LRU
would have; fits for which the last surprise counts; whether it orders as LRU; up to which request, or since
which it does not; for how many requests next time; up to which request it fits often."""

BASE, LENGTH_MEAN, SPREAD, SERVED_AT, RETURNS, RETURN_SQUARES, BEHIND = range(7)
REALS: Final = 7
"""Slots of `reals`: seconds up to which `exposure` counts; mean blocks of a request; design effect of all;
time of the request being served; fading sums of the waits that a request ended, and of their squares; hits
that LRU would have had more, since it last had none, as a number below 0."""


def age_edges() -> list[float]:
    """List the seconds at which the bins of age begin."""
    return [0.0, *(0.75 * 2.0 ** (b / 1.6) for b in range(AGES))]
