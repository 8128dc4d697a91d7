"""Queues of resident blocks in order of last access, for policies that compare the heads of a few classes.

A block is in one queue at most. The head of a queue is its oldest block that the request being served has not
pinned; it is kept, so that pinned blocks are passed over once a request and not once a victim. Called by the
policies of this folder that have classes or levels, one of which runs at a time.

All queues share one pair of links: slot k < QUEUES is the sentinel of queue k, slot QUEUES + x is block x.
`older[k]` is the newest block of queue k, `newer[k]` the oldest.
"""

from typing import Final, NamedTuple

from kvtune_cache.blocks import EPOCH, NO_BLOCK, BlockTable, Integers, is_pinned
from kvtune_cache.signals import Floats

QUEUES: Final = 64

NO_QUEUE: Final = 0
"""In `queue`: in none. A block of queue k has k + 1."""

SEEN_EPOCH: Final = 0
PASSED: Final = 1
QUEUE_FIELDS: Final = 2
"""Slots of `state`: the request that the heads belong to; how many queues have a head that is not their
oldest block."""


class Queues(NamedTuple):
    """Queues over n blocks: lists or arrays of the lengths said, as `plain_queues` makes them."""

    newer: Integers
    """QUEUES + n slots."""

    older: Integers
    """QUEUES + n slots."""

    queue: Integers
    """n numbers: NO_QUEUE or the queue's + 1."""

    last: Floats
    """n times of last access, seconds; kept when a block leaves."""

    heads: Integers
    """QUEUES slots; a queue's own sentinel where it has no head."""

    passed: Integers
    """QUEUES queue numbers: the first `state[PASSED]` have a head that is not their oldest block."""

    state: Integers
    """QUEUE_FIELDS numbers."""


def plain_queues(blocks: int) -> Queues:
    """Make empty queues of lists."""
    links = list(range(QUEUES)) + [0] * blocks
    return Queues(
        newer=links,
        older=list(links),
        queue=[NO_QUEUE] * blocks,
        last=[0.0] * blocks,
        heads=list(range(QUEUES)),
        passed=[0] * QUEUES,
        state=[0] * QUEUE_FIELDS,
    )


def enqueue(queues: Queues, x: int, k: int, now: float) -> None:
    """Make x the newest of queue k; it must be in none."""
    newer, older = queues.newer, queues.older
    slot, second = QUEUES + x, older[k]
    newer[slot] = k
    older[slot] = second
    newer[second] = slot
    older[k] = slot
    queues.queue[x] = k + 1
    queues.last[x] = now
    if queues.heads[k] == k:
        queues.heads[k] = slot


def dequeue(queues: Queues, x: int) -> int:
    """Take x out of its queue, which is returned; it must be in one."""
    newer, older = queues.newer, queues.older
    slot, k = QUEUES + x, queues.queue[x] - 1
    above, below = newer[slot], older[slot]
    older[above] = below
    newer[below] = above
    if queues.heads[k] == slot:
        queues.heads[k] = above
    queues.queue[x] = NO_QUEUE
    return k


def enqueue_by_age(queues: Queues, x: int, k: int) -> None:
    """Put x into queue k by its last access, as the newest of those equally old; it must be in none.

    Takes one step for each block of the queue that is newer. The head becomes the oldest block again.
    """
    newer, older, last = queues.newer, queues.older, queues.last
    below = older[k]
    while below != k and last[below - QUEUES] > last[x]:
        below = older[below]
    slot, above = QUEUES + x, newer[below]
    newer[slot] = above
    older[slot] = below
    older[above] = slot
    newer[below] = slot
    queues.queue[x] = k + 1
    queues.heads[k] = newer[k]


def is_empty(queues: Queues, k: int) -> bool:
    """Say whether queue k has no block."""
    return queues.newer[k] == k


def is_new_request(queues: Queues, table: BlockTable) -> bool:
    """Say whether the heads are those of an earlier request; then call `reopen`."""
    return queues.state[SEEN_EPOCH] != table.state[EPOCH]


def reopen(queues: Queues, table: BlockTable) -> None:
    """Begin a request: what an earlier one has pinned may be a head again."""
    queues.state[SEEN_EPOCH] = table.state[EPOCH]
    for i in range(queues.state[PASSED]):
        k = queues.passed[i]
        queues.heads[k] = queues.newer[k]
    queues.state[PASSED] = 0


def head(queues: Queues, table: BlockTable, k: int) -> int:
    """Find the head of queue k; NO_BLOCK where all of it is pinned, or where it is empty."""
    slot = queues.heads[k]
    if slot == k or not is_pinned(table, slot - QUEUES):
        return slot - QUEUES if slot != k else NO_BLOCK
    if slot == queues.newer[k]:
        _note_passed(queues, k)
    while slot != k and is_pinned(table, slot - QUEUES):
        slot = queues.newer[slot]
    queues.heads[k] = slot
    return slot - QUEUES if slot != k else NO_BLOCK


def _note_passed(queues: Queues, k: int) -> None:
    """Note once that the head of queue k moves on from its oldest block."""
    state, passed = queues.state, queues.passed
    for i in range(state[PASSED]):
        if passed[i] == k:
            return
    passed[state[PASSED]] = k
    state[PASSED] += 1
