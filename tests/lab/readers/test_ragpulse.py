"""The reader of RAGPulse."""

import json
from pathlib import Path

import numpy as np
import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import as_lists
from tests.lab.readers.files import Row, write

LENGTHS: dict[str, list[Row]] = {
    "1_sys_prompt": [{"sys_prompt_id": 1, "token_length": 512}],
    "2_passages": [{"passage_id": 2, "token_length": 30}, {"passage_id": 3, "token_length": 40}],
    "3_history": [{"history_id": 4, "token_length": 5}],
    "4_user_input": [{"user_input_id": 5, "token_length": 9}],
    "5_web_search": [{"web_search_id": 6, "token_length": 100}],
}


def request(at: object, passages: list[int], **other: object) -> Row:
    chunks: dict[str, object] = {
        "sys_prompt": [1],
        "passages_ids": passages,
        "history": [],
        "user_input": [5],
    }
    row = {"timestamp": at, "input_length": 9, "output_length": 2, "session_id": "s", "hash_ids": chunks}
    return row | other


ROWS = [request("5", [2, 3]), request("9", [3, 2]), request(7, [2, 3], session_id="u")]


def folder(path: Path, rows: list[Row]) -> Path:
    for name, lengths in LENGTHS.items():
        write(path / f"rag_{name}.jsonl", lengths)
    return write(path / "rag_0_trace.jsonl", rows)


def test_a_block_is_a_chunk_behind_what_stands_before_it(tmp_path: Path) -> None:
    loaded = load(folder(tmp_path, ROWS))
    requests = as_lists(loaded.requests)
    assert requests.times == [0, 2, 4]
    assert requests.blocks == [0, 1, 2, 3, 0, 1, 2, 3, 0, 4, 5, 6]
    assert requests.tokens == [512, 30, 40, 9, 512, 30, 40, 9, 512, 40, 30, 9]
    assert np.asarray(loaded.sessions).tolist() == [0, 1, 0]
    assert np.asarray(loaded.parts).tolist() == [0, 1, 1, 4, 1, 1, 4]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (request("x", [2]), ":4: timestamp: 'x' is not a number of seconds >= 0"),
        (request("1_0", [2]), ":4: timestamp: '1_0' is not a number of seconds >= 0"),
        (request(True, [2]), ":4: timestamp: True is not a number of seconds >= 0"),
        (request(1, [2], hash_ids={"sys_prompt": 0}), ":4: hash_ids: .* holds something else than lists"),
        (request(-1, [2]), ":4: timestamp: -1 is not a number of seconds >= 0"),
        (request([], [2]), r":4: timestamp: \[\] is not a number of seconds >= 0"),
        (request(1, [77]), ":4: hash_ids: chunk 77 has no token_length in any other file"),
        (request(1, ["a"]), ":4: hash_ids: holds 'a', which is not a whole number"),  # type: ignore[list-item]  # wrong
        (
            request(1, [2], hash_ids={"sys": [1]}),
            r":4: hash_ids: \{'sys': \[1\]\} is not an object of sys_prompt",
        ),
        (request(1, [2], output_length=None), ":4: output_length: None is not a whole number"),
        ({"timestamp": 1, "output_length": 3}, ":4: hash_ids: is missing"),
    ],
)
def test_a_bad_row_is_named_and_may_be_skipped(row: Row, says: str, tmp_path: Path) -> None:
    path = folder(tmp_path, [*ROWS, row])
    with pytest.raises(TraceError, match=says):
        load(path)
    loaded = load(path, skip_bad=1)
    assert (loaded.skipped, len(loaded.requests.times)) == (1, 3)


def test_a_missing_length_file_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path, ROWS)
    (tmp_path / "rag_3_history.jsonl").unlink()
    with pytest.raises(TraceError, match=r"needs one file rag_3_history\.\.\. beside it: none"):
        load(path)


def test_a_bad_length_is_named_with_its_own_file(tmp_path: Path) -> None:
    path = folder(tmp_path, ROWS)
    (tmp_path / "rag_3_history.jsonl").write_text(json.dumps({"history_id": 4, "token_length": "5"}) + "\n")
    with pytest.raises(TraceError, match=r"rag_3_history\.jsonl:1: token_length: '5' is not a whole number"):
        load(path)
