"""The block table: which blocks are resident, in which list and order, and whose request has pinned them.

Every policy of `eviction/` keeps its blocks in one table, so that a policy can take over from another without
losing a block. The functions run as they are on lists; they only index, compare and do integer arithmetic, so
that whoever has many blocks may compile them for arrays. Nothing here imports numpy or numba.

Blocks are dense numbers 0 .. n-1, hashed once by the caller. All lists share one pair of links: list k is
circular through its sentinel, the slot n + k, so that no link is ever missing. `after[n + k]` is the newest
block of list k, `before[n + k]` the oldest; `before` leads from the oldest to the newest.
"""

from collections.abc import MutableSequence
from typing import Annotated, Final, NamedTuple, TypeAlias

Integers: TypeAlias = MutableSequence[int]
"""A list of ints, or a numpy array of int32."""

Links: TypeAlias = Annotated[MutableSequence[int], "uint32"]
"""A list of ints from 0, or a numpy array of uint32: no check for an index from the end where one is used."""

Longs: TypeAlias = Annotated[MutableSequence[int], "int64"]
"""A list of ints, or a numpy array of int64."""

Bytes: TypeAlias = Annotated[MutableSequence[int], "uint8"]
"""A list of ints from 0 to 255, or a numpy array of uint8: small, so that more of it stays in caches."""

LISTS: Final = 4
RECENT: Final = 2
"""Resident: the only list of LRU, FIFO and SIEVE, the small queue of S3-FIFO, the first list of ARC."""

FREQUENT: Final = 3
"""Resident: the main queue of S3-FIFO, the second list of ARC."""

GHOST_RECENT: Final = 0
GHOST_FREQUENT: Final = 1
"""Not resident, remembered: what has left the list of the same name."""

NOWHERE: Final = 0
"""In `where`: in no list. A block of list k has k + 1."""

RESIDENT: Final = RECENT
"""In `where`: a block is resident where its value is above this one."""

NO_BLOCK: Final = -1

EPOCH: Final = 0
CURSOR: Final = 1
HAND: Final = 2
GONE: Final = 3
BEGAN: Final = 4
TARGET: Final = 5
PINS: Final = 6
SIZES: Final = 7
FIELDS: Final = SIZES + LISTS
"""Slots of `state`: the number of the request; where its search for a victim stands; SIEVE's hand; how many
blocks have left during it; whether anything has ever left; ARC's target in units of 1 / TARGET_PARTS blocks;
how many blocks it has pinned; from SIZES on the lengths of the lists."""


class BlockTable(NamedTuple):
    """State of n blocks: lists or arrays of the lengths said, as `plain_table` makes them."""

    before: Links
    """n + LISTS block numbers: the neighbour that is newer."""

    after: Links
    """n + LISTS block numbers: the neighbour that is older."""

    pinned: Integers
    """n request numbers: the last request that a block belongs to."""

    where: Bytes
    """n places: NOWHERE or the list's number + 1."""

    touches: Bytes
    """n small counts: S3-FIFO's frequency (0 to 3), SIEVE's mark (0 or 1)."""

    gone: Integers
    """n block numbers: the first `state[GONE]` have left during this request."""

    state: Longs
    """FIELDS numbers."""


def plain_table(blocks: int) -> BlockTable:
    """Make an empty table of lists; raises ValueError for less than one block."""
    if blocks < 1:
        raise ValueError(f"blocks: {blocks} is less than 1")
    ends = [blocks + k for k in range(LISTS)]
    table = BlockTable(
        before=[0] * blocks + ends,
        after=[0] * blocks + ends,
        pinned=[0] * blocks,
        where=[NOWHERE] * blocks,
        touches=[0] * blocks,
        gone=[0] * blocks,
        state=[0] * FIELDS,
    )
    table.state[HAND] = NO_BLOCK
    return table


def link(table: BlockTable, x: int, k: int) -> None:
    """Make x the newest of list k; it must be in none."""
    before, after = table.before, table.after
    sentinel = len(table.where) + k
    second = after[sentinel]
    before[x] = sentinel
    after[x] = second
    before[second] = x
    after[sentinel] = x
    table.where[x] = k + 1
    table.state[SIZES + k] += 1


def unlink(table: BlockTable, x: int) -> None:
    """Take x out of its list; it must be in one."""
    take_out(table, x, table.where[x] - 1)


def renew(table: BlockTable, x: int, k: int) -> None:
    """Make x the newest of list k, which it is in."""
    before, after = table.before, table.after
    newer, older = before[x], after[x]
    after[newer] = older
    before[older] = newer
    sentinel = len(table.where) + k
    second = after[sentinel]
    before[x] = sentinel
    after[x] = second
    before[second] = x
    after[sentinel] = x


def move(table: BlockTable, x: int, k: int, to: int) -> None:
    """Make x, which is in list k, the newest of another list."""
    renew(table, x, to)
    table.where[x] = to + 1
    table.state[SIZES + k] -= 1
    table.state[SIZES + to] += 1


def take_out(table: BlockTable, x: int, k: int) -> None:
    """Take x out of list k, which it is in: `unlink` where the list is known."""
    newer, older = table.before[x], table.after[x]
    table.after[newer] = older
    table.before[older] = newer
    table.where[x] = NOWHERE
    table.state[SIZES + k] -= 1


def leave(table: BlockTable, x: int) -> None:
    """Let a resident block go, and note that it has."""
    let_go(table, x, table.where[x] - 1)


def let_go(table: BlockTable, x: int, k: int) -> None:
    """Let a resident block of list k go: `leave` where the list is known."""
    take_out(table, x, k)
    note_gone(table, x)


def note_gone(table: BlockTable, x: int) -> None:
    """Note that a block is not resident any more."""
    table.gone[table.state[GONE]] = x
    table.state[GONE] += 1


def resident(table: BlockTable) -> int:
    """Count the resident blocks."""
    return table.state[SIZES + RECENT] + table.state[SIZES + FREQUENT]


def is_pinned(table: BlockTable, x: int) -> bool:
    """Say whether the request that is being served has pinned x."""
    return table.state[PINS] > 0 and table.pinned[x] == table.state[EPOCH]


def oldest_free(table: BlockTable, k: int) -> int:
    """Find the oldest block of list k that this request has not pinned; NO_BLOCK when there is none."""
    sentinel = len(table.where) + k
    x = table.before[sentinel]
    while x != sentinel and is_pinned(table, x):
        x = table.before[x]
    return NO_BLOCK if x == sentinel else x


def prefix(table: BlockTable, blocks: Integers, start: int, stop: int) -> int:
    """Count the resident blocks from `start` on, up to the first that is not."""
    where = table.where
    i = start
    while i < stop and where[blocks[i]] > RESIDENT:
        i += 1
    return i - start


def pin(table: BlockTable, blocks: Integers, start: int, stop: int) -> None:
    """Keep these blocks until the next request begins."""
    epoch = table.state[EPOCH]
    for i in range(start, stop):
        table.pinned[blocks[i]] = epoch
    table.state[PINS] += stop - start


def next_request(table: BlockTable) -> None:
    """Begin the next request: nothing is pinned, nothing has left."""
    table.state[EPOCH] += 1
    table.state[CURSOR] = NO_BLOCK
    table.state[GONE] = 0
    table.state[PINS] = 0
