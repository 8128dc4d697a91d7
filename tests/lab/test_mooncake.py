"""The reader of Mooncake traces."""

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest

from kvtune_lab.mooncake import TraceError, read_mooncake, repeat_mooncake

CONVERSATION = Path(__file__).parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"

ROWS: list[dict[str, object]] = [
    {"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 100, "output_length": 0, "hash_ids": [0]},
    {"timestamp": 6000, "input_length": 1200, "output_length": 9, "hash_ids": [0, 1, 4]},
]


def lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(lines(ROWS))
    return path


def test_rows_become_requests_with_arrivals_from_the_first_line(trace: Path) -> None:
    requests = list(read_mooncake(trace))
    assert [r.arrival_s for r in requests] == [0.0, 0.0, 3.0]
    assert [r.root for r in requests] == [1, 0, 1]
    assert (requests[0].prompt_tokens, requests[0].output_tokens, requests[0].blocks) == (600, 5, [0, 1])


def test_a_packed_trace_reads_as_the_plain_one_whatever_its_name(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(lines(ROWS)))
    assert list(read_mooncake(packed)) == list(read_mooncake(trace))


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\n" + lines(ROWS[:1]) + b"  \n")
    assert len(list(read_mooncake(path))) == 1


def test_a_repeated_trace_goes_on_in_time_and_shares_no_block_with_the_pass_before(trace: Path) -> None:
    first, second, third = (list(islice(repeat_mooncake(trace), 9))[i : i + 3] for i in (0, 3, 6))
    assert [r.arrival_s for r in second] == [4.5, 4.5, 7.5]
    ids = [{block for r in part for block in r.blocks} for part in (first, second, third)]
    assert not (ids[0] & ids[1] or ids[1] & ids[2] or ids[0] & ids[2])
    assert [len(r.blocks) for r in second] == [2, 1, 3]
    assert [r.root == r.blocks[min(1, len(r.blocks) - 1)] for r in third] == [True] * 3


BAD = {
    "is not JSON": (b"{nope", "line 2: line: is not JSON"),
    "not an object": (b"[1]", "line 2: line: is not a JSON object"),
    "no timestamp": (b'{"input_length": 1}', "line 2: timestamp: None is not a number"),
    "NaN timestamp": (b'{"timestamp": NaN}', "line 2: timestamp: nan is not a number"),
    "true timestamp": (b'{"timestamp": true}', "line 2: timestamp: True is not a number"),
    "back in time": (
        b'{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [0]}',
        "line 2: timestamp: 1 is before 3000",
    ),
    "no prompt": (
        b'{"timestamp": 9000, "input_length": 0}',
        "line 2: input_length: 0 is not a whole number >= 1",
    ),
    "half an answer": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1.5}',
        r"line 2: output_length: 1\.5 is not a whole number >= 0",
    ),
    "no blocks": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1}',
        "line 2: hash_ids: is not a list of whole numbers",
    ),
    "a word for a block": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1, "hash_ids": ["a"]}',
        "line 2: hash_ids: is not a list of whole numbers",
    ),
    "too few blocks": (
        b'{"timestamp": 9000, "input_length": 1500, "output_length": 1, "hash_ids": [1, 2]}',
        "line 2: hash_ids: has 2 blocks where 1500 tokens need 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_named_with_its_field(case: str, tmp_path: Path) -> None:
    line, message = BAD[case]
    path = tmp_path / "t"
    path.write_bytes(lines(ROWS[:1]) + line + b"\n")
    with pytest.raises(TraceError, match=message):
        list(read_mooncake(path))


def test_an_empty_trace_is_refused_and_is_not_repeated_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\n")
    with pytest.raises(TraceError, match="line 1: timestamp: the trace has no request"):
        next(repeat_mooncake(path))


def test_a_torn_packed_trace_says_after_which_line(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(lines(ROWS * 1))[:-12])
    with pytest.raises(TraceError, match=r"line \d: file: cannot be unpacked"):
        list(read_mooncake(path))


def test_a_missing_trace_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_mooncake(tmp_path / "none"))


def test_the_conversation_trace_has_its_known_size() -> None:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    requests = list(read_mooncake(CONVERSATION))
    assert len(requests) == 12_031
    assert sum(len(r.blocks) for r in requests) == 288_500
    assert len({block for r in requests for block in r.blocks}) == 182_790
