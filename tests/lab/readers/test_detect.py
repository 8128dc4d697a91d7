"""Formats are told by content."""

from pathlib import Path

import pytest

from kvtune_lab.readers.errors import ArrivalsOnly, TraceError
from kvtune_lab.readers.kv_events import write_kv_events
from kvtune_lab.readers.load import load, load_arrivals, open_trace
from kvtune_lab.readers.loaded import LACKS, Format
from tests.lab.readers.files import agentic, bailian, lines, mooncake, write

HEADS = {
    Format.MOONCAKE: lines([mooncake(0, [1])]),
    Format.BAILIAN: lines([bailian(1, -1, 0, [1])]),
    Format.RAGPULSE: b'{"timestamp": "1", "hash_ids": {"sys_prompt": [1]}}\n',
    Format.AGENTIC: lines([agentic(1, 0, [1, 3])]),
    Format.AZURE: b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\n",
    Format.SERVEGEN: b"category,model,client,t_s,rate_rps,cv,dist,param1,param2\nl,m,0,0,1.3,8,Weibull,1,1\n",
    Format.RECORDING: b'{"format": "kvtune-recording/1", "blockTokens": 16}\n',
}


@pytest.mark.parametrize("format", HEADS)
def test_a_trace_is_known_by_its_first_good_line(format: Format, tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(b"\n" + HEADS[format] * 2)
    trace = open_trace(path)
    assert trace.format is format
    assert trace.lacks == LACKS[format]


def test_a_damaged_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(b"{torn\n" + HEADS[Format.BAILIAN])
    assert open_trace(path).format is Format.BAILIAN
    assert load(path, skip_bad=1).skipped == 1


def test_kv_events_are_known_by_a_length_and_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "any"
    with path.open("wb") as file:
        write_kv_events(file, [b"\x92\xcb" + b"\x00" * 8 + b"\x90"])
    assert open_trace(path).format is Format.KV_EVENTS


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", ":1: file: the trace has no request"),
        (b"\n \n", ":1: file: the trace has no request"),
        (b"hello\n", ":1: format: hello is the first line of none of mooncake, bailian, "),
        (b'{"a": 1}\n', ":1: format: .* is the first line of none of"),
        (b"\x1f\x8b\x08", ":1: file: cannot be unpacked"),
        (b"a,b\n1,2\n", ":1: format: a,b is the first line of none of"),
    ],
    ids=["empty", "blank", "text", "other JSON", "torn at once", "other CSV"],
)
def test_an_unknown_or_empty_file_is_told(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=says):
        open_trace(path)


@pytest.mark.parametrize("format", [Format.AZURE, Format.SERVEGEN])
def test_what_needs_blocks_says_why_arrivals_do_not_do(format: Format, tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(HEADS[format])
    assert not open_trace(path).has_blocks
    with pytest.raises(ArrivalsOnly, match=f"any:1: format: {format} lacks .*block ids: no reuse"):
        load(path)


def test_a_folder_needs_one_file_of_requests(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="needs one file with 0_trace in its name: none"):
        open_trace(tmp_path)


def test_session_starts_are_for_agentic_traces_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "any", [mooncake(500, [1])])
    with pytest.raises(TraceError, match=r"any:1: format: mooncake takes no session starts \(.*x\)"):
        load(path, starts=tmp_path / "x")


def test_arrivals_are_read_of_a_trace_with_blocks_too(tmp_path: Path) -> None:
    path = write(tmp_path / "any", [mooncake(500, [1]), mooncake(2500, [1, 2])])
    assert load_arrivals(path).times.tolist() == [0, 2]
