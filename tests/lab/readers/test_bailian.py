"""The reader of Bailian's format."""

from pathlib import Path

import numpy as np
import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import Format, as_lists
from tests.lab.readers.files import bailian, write

GOOD = bailian(1, -1, 0.5, [10, 11])


def test_rows_become_requests_of_16_token_blocks_with_sessions_turns_and_types(tmp_path: Path) -> None:
    rows = [
        GOOD,
        bailian(2, -1, 1.0, [20], type="image"),
        bailian(3, 1, 2.5, [10, 11, 12]),
        bailian(4, 3, 9.0, [10, 11, 12, 13], turn=3),
    ]
    loaded = load(write(tmp_path / "t", rows))
    assert (loaded.format, loaded.block_tokens) == (Format.BAILIAN, 16)
    requests = as_lists(loaded.requests)
    assert requests.times == [0, 0.5, 2, 8.5]
    assert requests.blocks == [0, 1, 2, 0, 1, 3, 0, 1, 3, 4]
    assert requests.tokens == [16, 8, 8, 16, 16, 8, 16, 16, 16, 8]
    assert requests.kinds == [1, 2, 1, 1]
    assert loaded.kind_names == ("text", "image")
    assert np.asarray(loaded.sessions).tolist() == [0, 1, 0, 0]
    assert np.asarray(loaded.turns).tolist() == [1, 1, 2, 3]


def test_a_last_block_that_is_not_full_may_be_left_out(tmp_path: Path) -> None:
    loaded = load(write(tmp_path / "t", [bailian(1, -1, 0, [1, 2], input_length=40)]))
    assert as_lists(loaded.requests).tokens == [16, 16]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"chat_id": -3}, ":2: chat_id: -3 is not a whole number >= 0"),
        ({"parent_chat_id": "x"}, ":2: parent_chat_id: 'x' is not a whole number >= -1"),
        ({"timestamp": -2.0}, r":2: timestamp: -2\.0 is not a number of seconds >= 0"),
        ({"timestamp": 0.25}, ":2: timestamp: 0.25 s is before 0.5 s"),
        ({"input_length": None}, ":2: input_length: None is not a whole number >= 0"),
        ({"output_length": True}, ":2: output_length: True is not a whole number >= 0"),
        ({"type": 4}, ":2: type: 4 is not a word"),
        ({"turn": 0}, ":2: turn: 0 is not a whole number >= 1"),
        ({"hash_ids": [10, 11, 12]}, ":2: hash_ids: has 3 blocks where 24 tokens fill 1 of 16 and a part"),
        ({"hash_ids": [10, 10]}, ":2: hash_ids: holds block 10 more than once"),
        ({"hash_ids": [11, 10]}, ":2: hash_ids: block 11 follows nothing, but 10 earlier"),
        ({"hash_ids": 5}, ":2: hash_ids: 5 is not a list"),
    ],
)
def test_a_bad_field_is_named_with_its_value(change: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=says):
        load(write(tmp_path / "t", [GOOD, {**GOOD, **change}]))


@pytest.mark.parametrize("field", sorted(GOOD.keys() - {"turn"}))
def test_a_missing_field_is_named(field: str, tmp_path: Path) -> None:
    row = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(TraceError, match=f":2: {field}: is missing"):
        load(write(tmp_path / "t", [GOOD, row]))
