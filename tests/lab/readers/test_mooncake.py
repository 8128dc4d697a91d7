"""The reader of Mooncake traces."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load
from kvtune_lab.readers.mooncake import read_mooncake, repeat_mooncake
from tests.lab.readers.files import lines

ROWS: list[dict[str, object]] = [
    {"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 100, "output_length": 0, "hash_ids": [0]},
    {"timestamp": 6000, "input_length": 1200, "output_length": 9, "hash_ids": [0, 1, 4]},
]


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


def test_all_requests_as_arrays(trace: Path) -> None:
    requests = load(trace).requests
    assert np.asarray(requests.starts).tolist() == [0, 2, 3, 6]
    assert np.asarray(requests.blocks).tolist() == [0, 1, 0, 0, 1, 2]
    assert np.asarray(requests.tokens).tolist() == [512, 88, 100, 512, 512, 176]
    assert np.asarray(requests.times).tolist() == [0, 0, 3]
    assert np.asarray(requests.outputs).tolist() == [5, 0, 9]


def test_a_repeated_trace_goes_on_in_time_and_shares_no_block_with_the_pass_before(trace: Path) -> None:
    first, second, third = (list(islice(repeat_mooncake(trace), 9))[i : i + 3] for i in (0, 3, 6))
    assert [r.arrival_s for r in second] == [4.5, 4.5, 7.5]
    ids = [{block for r in part for block in r.blocks} for part in (first, second, third)]
    assert not (ids[0] & ids[1] or ids[1] & ids[2] or ids[0] & ids[2])
    assert [len(r.blocks) for r in second] == [2, 1, 3]
    assert [r.root == r.blocks[min(1, len(r.blocks) - 1)] for r in third] == [True] * 3


BAD = {
    "is not JSON": (b"{nope", r":2: line: \{nope is not JSON"),
    "not an object": (b"[1]", r":2: line: \[1\] is not a JSON object"),
    "no timestamp": (b'{"input_length": 1}', ":2: timestamp: is missing"),
    "NaN timestamp": (b'{"timestamp": NaN}', ":2: timestamp: nan is not a number"),
    "true timestamp": (b'{"timestamp": true}', ":2: timestamp: True is not a number"),
    "back in time": (
        b'{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [0]}',
        ":2: timestamp: 1 is before 3000",
    ),
    "no prompt": (
        b'{"timestamp": 9000, "input_length": 0}',
        ":2: input_length: 0 is not a whole number >= 1",
    ),
    "half an answer": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1.5}',
        r":2: output_length: 1\.5 is not a whole number >= 0",
    ),
    "no blocks": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1}',
        ":2: hash_ids: is missing",
    ),
    "a word for a block": (
        b'{"timestamp": 9000, "input_length": 5, "output_length": 1, "hash_ids": ["a"]}',
        ":2: hash_ids: holds 'a', which is not a whole number",
    ),
    "too few blocks": (
        b'{"timestamp": 9000, "input_length": 1500, "output_length": 1, "hash_ids": [1, 2]}',
        ":2: hash_ids: has 2 blocks where 1500 tokens need 3",
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
    with pytest.raises(TraceError, match=":1: file: the trace has no request"):
        next(repeat_mooncake(path))


def test_a_missing_trace_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_mooncake(tmp_path / "none"))
