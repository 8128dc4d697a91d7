"""Next uses, known prefixes, turns and classes of small traces, and against plain definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_lab.stats.classes import classes_of
from kvtune_lab.stats.reuse import known_prefixes, next_requests
from kvtune_lab.stats.turns import conversations
from tests.lab.stats.traces import loaded

paths = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=15)


def chained(path: list[int]) -> list[int]:
    """Ids that name the path to each block, so that they are prefix-chained."""
    ids, at = [], 1
    for step in path:
        at = at * 3 + step + 1
        ids.append(at)
    return ids


@given(paths)
def test_next_uses_and_prefixes_are_what_their_definitions_say(steps: list[list[int]]) -> None:
    requests = [chained(path) for path in steps]
    trace = loaded(*((float(i), blocks) for i, blocks in enumerate(requests)))
    following = next_requests(trace.requests, trace.distinct_blocks).tolist()
    found = known_prefixes(trace.requests).tolist()
    at = 0
    for r, blocks in enumerate(requests):
        assert found[r] == sum(any(x in earlier for earlier in requests[:r]) for x in blocks)
        for x in blocks:
            later = (s for s in range(r + 1, len(requests)) if x in requests[s])
            assert following[at] == next(later, len(requests))
            at += 1


def test_turns_are_inferred_from_the_prefix_that_a_request_goes_on_with() -> None:
    trace = loaded(
        (0, [0, 1, 2]),
        (1, [0, 5, 6]),
        (2, [0, 1, 2, 3]),
        (3, [0, 1, 7, 8]),
        (4, [0, 5, 6, 9]),
        (5, [0, 1, 2, 3, 4]),
    )
    talks = conversations(trace)
    assert talks.inferred
    assert talks.sessions.tolist() == [0, 1, 0, 0, 1, 0]
    assert talks.branches.tolist() == [False, False, False, True, False, False]
    assert talks.turns.tolist() == [1, 1, 2, 2, 2, 3]


def test_known_sessions_count_their_requests_as_turns() -> None:
    trace = loaded((0, [1]), (1, [2]), (2, [1]), (3, [3]), session=["a", "b", "a", None])
    talks = conversations(trace)
    assert not talks.inferred
    assert talks.turns.tolist() == [1, 1, 2, -1]
    assert classes_of(trace, talks).names == ("turn 1", "turn 2", "not known")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"kind": ["x", "", "x"]}, ("not known", "x")),
        (
            {"kind": ["x", "y", "x"], "turn": [1, 1, 7], "session": ["a", "b", "a"]},
            ("x, turn 1", "x, turn 6+", "y, turn 1"),
        ),
        ({}, ("turn 1",)),
    ],
    ids=["by type", "by type and turn", "by turn"],
)
def test_classes_are_what_the_trace_tells_of(fields: dict[str, object], names: tuple[str, ...]) -> None:
    trace = loaded((0, [1]), (1, [2]), (2, [3]), **fields)
    found = classes_of(trace, conversations(trace))
    assert found.names == names
    assert len(found.of_references(trace)) == 3
    assert found.of_request is not None and np.all(found.of_request < len(names))
