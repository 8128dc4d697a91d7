"""Small prefix-chained traces for tests of the planner."""

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from kvtune_cache.requests import Requests
from kvtune_lab.traffic import Request
from tests.lab.packed import packed

BLOCK = 16


def trace(rows: Sequence[Sequence[int]], seconds_apart: float = 1.0) -> Requests:
    """Requests of blocks of 16 tokens, of which the last holds 10."""
    requests = (
        Request(seconds_apart * r, row[0], row[0], list(row), BLOCK * len(row) - 6, 100 + r)
        for r, row in enumerate(rows)
    )
    return packed(requests, block_tokens=BLOCK)


@st.composite
def branching(draw: st.DrawFn) -> Requests:
    """Paths in a random tree: each request follows an earlier one for a while, then goes its own way."""
    rows: list[tuple[int, ...]] = []
    fresh = 0
    for _ in range(draw(st.integers(1, 25))):
        head: tuple[int, ...] = ()
        if rows and draw(st.booleans()):
            earlier = draw(st.sampled_from(rows))
            head = earlier[: draw(st.integers(0, len(earlier)))]
        new = draw(st.integers(0 if head else 1, 6))
        rows.append((*head, *range(fresh, fresh + new)))
        fresh += new
    return trace(rows)


def sessions(count: int, turns: int) -> Requests:
    """Sessions that take turns, each adding two blocks a turn to a head that all share."""
    rows = [
        (0, *(1 + 1000 * (s + 1) + block for block in range(2 * (turn + 1))))
        for turn in range(turns)
        for s in range(count)
    ]
    return trace(rows)


def skewed(count: int) -> Requests:
    """Prefixes of 400 sessions without a common head, some asked for far more often than others."""
    rng = random.Random(3)
    rows = []
    for _ in range(count):
        session, length = int(400 * rng.random() ** 1.5), rng.randint(1, 8)
        rows.append(range(100 * session, 100 * session + length))
    return trace(rows)
