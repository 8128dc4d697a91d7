"""Circular lists of numbered blocks in a pair of links, moved by whole runs.

A list goes through its sentinel: `after[sentinel]` is its newest block, `before[sentinel]` the oldest.
"""

from kvtune_cache.blocks import Integers


def renew_run(before: Integers, after: Integers, sentinel: int, run: Integers, start: int, stop: int) -> None:
    """Make the blocks run[start:stop], all in the list, its newest: the first of them the newest of all.

    As to renew each of them from the last to the first; but neighbours that already follow one another, as
    those of a prefix do, move at once.
    """
    anchor = sentinel
    i = start
    while i < stop:
        first = last = run[i]
        i += 1
        while i < stop and after[last] == run[i]:
            last = run[i]
            i += 1
        move_behind(before, after, anchor, first, last)
        anchor = last


def move_behind(before: Integers, after: Integers, anchor: int, first: int, last: int) -> None:
    """Move a run of a list, from its newest block to its oldest, to the next older place after `anchor`."""
    if after[anchor] == first:
        return
    newer, older = before[first], after[last]
    after[newer] = older
    before[older] = newer
    second = after[anchor]
    before[first] = anchor
    after[last] = second
    before[second] = last
    after[anchor] = first
