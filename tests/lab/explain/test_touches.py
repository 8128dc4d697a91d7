"""The classes and waits of touches."""

import math
from array import array

import numpy as np
import pytest
from hypothesis import given

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.stack import columns
from kvtune_lab.compiled import compiled
from kvtune_lab.explain.touches import SHAPE, Room, Touches, classified, classify
from tests.lab.capacity.traces import branching


def levels(requests: Requests) -> list[tuple[int, ...]]:
    """The levels of each reference: touches before, gap, new blocks, answer, last block."""
    classes = classified(requests)[0]
    return [tuple(int(level) for level in np.unravel_index(k, SHAPE)) for k in classes]


def request_row(times: list[float], rows: list[list[int]], outputs: list[int]) -> Requests:
    """Requests of these blocks."""
    starts = array("q", np.concatenate(([0], np.cumsum([len(row) for row in rows]))).tolist())
    blocks = array("i", [x for row in rows for x in row])
    tokens = array("i", [16] * len(blocks))
    return Requests(starts, blocks, tokens, times, outputs, [0] * len(rows), [0.0] * len(rows))


def test_a_conversation_that_goes_on_is_told_from_one_that_branches_off() -> None:
    requests = request_row(
        [0.0, 30.0, 95.0, 100.0],
        [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [0, 6]],
        [50, 100, 350, -1],
    )
    assert levels(requests) == [
        *[(0, 0, 1, 0, last) for last in (0, 0, 1)],
        *[(1, 1, 0, 1, 0)] * 3,
        (0, 1, 0, 1, 1),
        *[(1, 2, 1, 2, 0)] * 4,
        *[(0, 2, 1, 2, last) for last in (0, 1)],
        (1, 0, 0, 0, 0),
        (0, 0, 0, 0, 1),
    ], "the fourth request branches off at block 0, which ended no request: no gap"


def test_waits_last_until_the_same_block_is_touched_again() -> None:
    _, waits = classified(request_row([0.0, 2.5, 9.0], [[0, 1], [0], [0, 1]], [1, 1, 1]))
    assert waits.tolist() == [2.5, 9.0, 6.5, math.inf, math.inf]


@given(branching())
def test_every_wait_leads_to_the_next_touch_of_its_block(requests: Requests) -> None:
    _, waits = classified(requests)
    at = np.repeat(np.asarray(requests.times), np.diff(np.asarray(requests.starts)))
    for i, x in enumerate(requests.blocks):
        later = [at[j] for j in range(i + 1, len(at)) if requests.blocks[j] == x]
        assert waits[i] == (later[0] - at[i] if later else math.inf)


def test_the_compiled_pass_tells_the_same() -> None:
    rows = [[0, *range(9 * (r % 4) + 1, 9 * (r % 4) + 2 + r % 7)] for r in range(40)]
    requests = request_row([7.0 * r for r in range(40)], rows, [15 * r for r in range(40)])
    classes, waits = classified(requests)
    count = len(waits)
    touches = Touches(np.zeros(count, np.uint8), np.full(count, np.inf))  # type: ignore[arg-type]  # arrays do
    room = Room(np.full(37, -1, np.int64), np.zeros(37), *np.zeros((2, 37), np.int32))  # type: ignore[arg-type]  # arrays do
    compiled(classify)(columns(requests), room, touches)
    np.testing.assert_array_equal(touches.classes, classes)
    assert touches.waits == pytest.approx(waits)
