"""Recordings of kvtune's own agents: what is written is what is read."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.hints import Hint
from kvtune_api.recordings import Recorded
from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import Format, as_lists
from kvtune_lab.readers.recording import write_recording

HEAD = '{"format": "kvtune-recording/1", "blockTokens": 16}\n'
HINTS = (
    None,
    Hint(session_ended=True),
    Hint(tool_running=True),
    Hint(tool_running=True, expected_return_seconds=2.5),
)
GOOD = '{"t": 1, "blocks": [7, 8], "prompt": 20}\n'


def recorded(time_s: float, length: int, session: int, answer: int | None) -> Recorded:
    return Recorded(
        arrival_s=time_s,
        blocks=[2**63 + session * 100 + i for i in range(-(-length // 16))],
        prompt_tokens=length,
        output_tokens=answer,
        session=f"s{session}",
        kind="chat" if session % 2 else None,
        hint=HINTS[session],
    )


requests = st.builds(
    recorded, st.floats(0, 1e6), st.integers(1, 99), st.integers(0, 3), st.none() | st.integers(0, 9)
)


@given(st.lists(requests, min_size=1))
def test_a_recording_reads_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Recorded]
) -> None:
    rows = sorted(rows, key=lambda row: row.arrival_s)
    path = tmp_path_factory.mktemp("recording") / "r"
    with path.open("w") as file:
        assert write_recording(file, rows, block_tokens=16) == len(rows)
    loaded = load(path)
    found = as_lists(loaded.requests)
    assert (loaded.format, loaded.block_tokens) == (Format.RECORDING, 16)
    assert found.times == [row.arrival_s - rows[0].arrival_s for row in rows]
    assert sum(found.tokens) == sum(row.prompt_tokens for row in rows)
    assert found.outputs == [-1 if row.output_tokens is None else row.output_tokens for row in rows]
    assert [bool(kind) for kind in found.kinds] == [row.kind is not None for row in rows]
    assert found.hints == [row.hint.returns_in_seconds if row.hint else 0.0 for row in rows]
    assert len(set(np.asarray(loaded.sessions).tolist())) == len({row.session for row in rows})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD.replace("/1", "/2") + GOOD, ":1: format: 'kvtune-recording/2' is not kvtune-recording/1"),
        (HEAD.replace("16", "0") + GOOD, ":1: blockTokens: 0 is not a whole number >= 1"),
        (HEAD, ":1: file: the trace has no request"),
        (HEAD + GOOD + '{"blocks": [7], "prompt": 5}', ":3: t: is missing"),
        (HEAD + GOOD + '{"t": 0.5, "blocks": [7], "prompt": 5}', ":3: t: 0.5 s is before 1 s"),
        (HEAD + GOOD + '{"t": 2, "blocks": [7, 8], "prompt": 5}', ":3: blocks: has 2 blocks where 5 tokens"),
        (HEAD + '{"t": 2, "blocks": [7], "prompt": 5, "session": 4}', ":2: session: 4 is not a text"),
        (
            HEAD + '{"t": 2, "blocks": [7], "prompt": 5, "hint": {"toolRunning": 1}}',
            ":2: hint.toolRunning: 1: input should be a valid boolean",
        ),
        (
            HEAD
            + '{"t": 2, "blocks": [7], "prompt": 5, "hint": {"sessionEnded": true, "toolRunning": true}}',
            ":2: hint: sessionEnded: true contradicts toolRunning",
        ),
        (HEAD + '{"t": 2, "blocks": [7], "prompt": 5, "hint": "soon"}', ":2: hint: must be an object"),
        (HEAD + '{"t": 2, "blocks": [7], "prompt": 5, "output": -1}', ":2: output: -1 is not a whole"),
    ],
)
def test_a_bad_line_is_named(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text(text)
    with pytest.raises(TraceError, match=says):
        load(path)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([recorded(2, 5, 0, None), recorded(1, 5, 0, None)], r"arrival_s: 1 is before 2"),
        ([recorded(float("inf"), 5, 0, None)], "arrival_s: inf"),
        ([Recorded(arrival_s=0, blocks=[1, 2], prompt_tokens=9)], "blocks: 2 for 9 prompt tokens"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(rows: list[Recorded], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        write_recording(StringIO(), rows, block_tokens=16)


def test_blocks_of_no_token_are_not_written() -> None:
    with pytest.raises(ValueError, match="block_tokens: 0 is less than 1"):
        write_recording(StringIO(), [], block_tokens=0)
