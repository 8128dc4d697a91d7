"""Whatever bytes a trace holds, a reader gives requests or a TraceError of one line, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtune_lab.readers.errors import ArrivalsOnly, TraceError
from kvtune_lab.readers.kv_events import write_kv_events
from kvtune_lab.readers.load import load, load_arrivals
from tests.lab.readers.files import agentic, bailian, lines, mooncake
from tests.lab.readers.test_detect import HEADS

GOOD: dict[str, dict[str, object]] = {
    "mooncake": dict(mooncake(1, [1, 2])),
    "bailian": dict(bailian(1, -1, 0.5, [1, 2])),
    "agentic": dict(agentic(1, 0.5, [1, 2, 9, 1])),
    "ragpulse": {
        "timestamp": 1,
        "input_length": 1,
        "output_length": 1,
        "session_id": "a",
        "hash_ids": {"sys_prompt": [1]},
    },
    "recording": {"t": 1, "blocks": [1], "prompt": 16, "output": 1, "session": "a", "kind": "k"},
}
HEADINGS = {"recording": '{"format": "kvtune-recording/1", "blockTokens": 16}\n'}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([2**31, 2**53, 2**63, -1, 0, 1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
Reader = Callable[[Path], object]


def told_or_read(path: Path, read: Reader = load) -> None:
    told = ""
    try:
        read(path)
    except TraceError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 600


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, field in (
        ("1_sys_prompt", "sys_prompt_id"),
        ("2_passages", "passage_id"),
        ("3_history", "history_id"),
        ("4_user_input", "user_input_id"),
        ("5_web_search", "web_search_id"),
    ):
        (tmp_path / f"{part}.jsonl").write_bytes(lines([{field: 1, "token_length": 16}]))
    return tmp_path


@pytest.mark.parametrize("name", GOOD)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_a_field_may_hold_anything(name: str, folder: Path, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(GOOD[name])))
    row = {**GOOD[name], field: data.draw(anything)}
    path = folder / "0_trace.jsonl"
    path.write_text(HEADINGS.get(name, "") + json.dumps(GOOD[name]) + "\n" + json.dumps(row) + "\n")
    told_or_read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.sampled_from(sorted(HEADS)), st.binary(max_size=60))
def test_a_line_may_hold_any_bytes(tmp_path: Path, format: str, line: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(HEADS[format] + line + b"\n")
    told_or_read(path)
    told_or_read(path, load_arrivals)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.binary(max_size=80), st.booleans())
def test_a_record_may_hold_any_bytes(tmp_path: Path, data: bytes, framed: bool) -> None:
    path = tmp_path / "t"
    with path.open("wb") as file:
        write_kv_events(file, [msgspec.msgpack.encode([1.0, []])])
        if framed:
            write_kv_events(file, [data])
        else:
            file.write(data)
    told_or_read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(anything.filter(lambda value: not isinstance(value, int) or abs(value) < 2**63), st.integers(1, 6))
def test_an_event_may_hold_anything(tmp_path: Path, value: object, at: int) -> None:
    event: list[object] = ["BlockStored", [1], None, [0], 16, None, "GPU"]
    event[at] = value
    path = tmp_path / "t"
    try:
        payload = msgspec.msgpack.encode([1.0, [event]])
    except (OverflowError, UnicodeEncodeError):
        return
    with path.open("wb") as file:
        write_kv_events(file, [payload])
    told_or_read(path)


def test_arrivals_alone_are_an_error_of_their_own_kind(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(HEADS["azure-llm"])  # type: ignore[index]  # a StrEnum is its text
    with pytest.raises(ArrivalsOnly):
        load(path)
