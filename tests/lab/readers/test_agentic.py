"""The reader of run-length coded agent sessions."""

import json
from pathlib import Path

import numpy as np
import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import as_lists
from tests.lab.readers.files import agentic, write

ROWS = [
    agentic(1, 0, [1, 3]),
    agentic(1, 20, [1, 3, 7, 1], stop="end_turn"),
    agentic(4, 5, [1, 2], agent="a", stop=""),
]
STARTS = {"trace_0001": 100.0, "trace_0004": 50}


def trace(folder: Path, rows: list[object] | None = None, starts: object = None) -> Path:
    if starts is not None:
        (folder / "x_session_starts_24h.json").write_text(json.dumps(starts))
    return write(folder / "x_requests.jsonl", ROWS if rows is None else rows)  # type: ignore[arg-type]  # rows


def test_runs_are_expanded_in_the_order_of_the_overlay(tmp_path: Path) -> None:
    loaded = load(trace(tmp_path, starts=STARTS))
    requests = as_lists(loaded.requests)
    assert requests.times == [0, 45, 65]
    assert requests.starts == [0, 2, 5, 9]
    assert requests.blocks == [0, 1, 2, 3, 4, 2, 3, 4, 5]
    assert requests.tokens == [64] * 9
    assert requests.outputs == [3, 3, 3]
    assert [loaded.kind_names[kind - 1] for kind in requests.kinds] == [
        "sub-agent: other",
        "main: tool_use",
        "main: end_turn",
    ]
    assert np.asarray(loaded.sessions).tolist() == [0, 1, 1]
    assert loaded.notes[-1].startswith("session starts from x_session_starts_24h.json")


def test_without_an_overlay_all_sessions_start_at_once_and_it_is_said(tmp_path: Path) -> None:
    loaded = load(trace(tmp_path))
    assert as_lists(loaded.requests).times == [0, 5, 20]
    assert loaded.notes[-1].startswith("no session starts: all sessions start at second 0")


def test_an_overlay_may_be_given(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"s_1": 0, "s_4": 7}))
    assert as_lists(load(trace(tmp_path, starts=STARTS), starts=other).requests).times == [0, 12, 20]


def test_several_overlays_beside_it_are_told(tmp_path: Path) -> None:
    (tmp_path / "x_session_starts_7d.json").write_text("{}")
    with pytest.raises(
        TraceError, match=r"several session starts lie beside it: .*choose by --session-starts"
    ):
        load(trace(tmp_path, starts=STARTS))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (agentic(1, -1, [1, 1]), ":4: t: -1 is not a number of seconds >= 0"),
        (agentic(1, 19.5, [1, 1]), ":4: t: 19.5 is before 20"),
        (agentic(9, 0, [1, 1]), ":4: s: session 9 has no start in the overlay"),
        (agentic(1, 30, [1]), r":4: runs: \[1\] is not pairs of whole numbers"),
        (agentic(1, 30, [1, -4]), r":4: runs: \[1, -4\] is not pairs of whole numbers"),
        (agentic(1, 30, [1, 3, 3, 2]), ":4: runs: holds block 3 more than once"),
        (agentic(1, 30, [2, 2]), ":4: runs: block 2 follows another block than earlier"),
        (agentic(1, 30, [1, 2, 7, 1]), ":4: runs: block 7 follows another block than earlier"),
        (agentic(1, 30, [1, 1], out=-2), ":4: out: -2 is not a whole number >= 0"),
        ({"s": 1, "runs": []}, ":4: t: is missing"),
    ],
)
def test_a_bad_row_is_named_and_may_be_skipped(row: object, says: str, tmp_path: Path) -> None:
    path = trace(tmp_path, [*ROWS, row], STARTS)
    with pytest.raises(TraceError, match=says):
        load(path)
    loaded = load(path, skip_bad=1)
    assert loaded.skipped == 1
    assert as_lists(loaded.requests).blocks == [0, 1, 2, 3, 4, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "x_session_starts_24h.json:1: line: is not JSON"),
        ("[1]", "line: is not a JSON object of start seconds"),
        ('{"a_0": 1, "b_0": 2}', "'b_0': session 0 has a start already"),
        ('{"a_0": 1, "a_0": 2}', "'a_0': is there twice"),
        ('{"trace_x": 1}', "'trace_x': 1 is not the start second of a session"),
        ('{"trace_1": -1}', "'trace_1': -1 is not the start second of a session"),
        ('{"trace_1": NaN}', "'trace_1': nan is not the start second of a session"),
    ],
)
def test_a_bad_overlay_is_named(text: str, says: str, tmp_path: Path) -> None:
    path = trace(tmp_path)
    (tmp_path / "x_session_starts_24h.json").write_text(text)
    with pytest.raises(TraceError, match=says):
        load(path)


def test_requests_without_blocks_are_kept_beside_others_but_not_alone(tmp_path: Path) -> None:
    assert len(load(trace(tmp_path, [*ROWS, agentic(1, 30, [])])).requests.times) == 4
    with pytest.raises(TraceError, match="runs: none of 1 requests has a block"):
        load(trace(tmp_path, [agentic(1, 0, [])]))
