"""The reader of recorded KV events of vLLM."""

from pathlib import Path

import msgspec
import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.kv_events import write_kv_events
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import Format, as_lists
from kvtune_lab.readers.source import MOST_LINE_BYTES


def stored(
    hashes: list[object], parent: object = None, *, size: object = 16, medium: object = "GPU"
) -> list[object]:
    """An event as an array, as vLLM 0.9 and later write it."""
    return ["BlockStored", hashes, parent, [0] * 16 * len(hashes), size, None, medium]


def events(folder: Path, *batches: object, cut: int | None = None) -> Path:
    path = folder / "events"
    with path.open("wb") as file:
        write_kv_events(file, [msgspec.msgpack.encode(batch) for batch in batches])
    if cut is not None:
        path.write_bytes(path.read_bytes()[:cut])
    return path


def test_a_stored_run_is_a_request_with_all_its_ancestors(tmp_path: Path) -> None:
    path = events(
        tmp_path,
        [100.0, [stored([b"a", b"b"])]],
        [110.0, [stored([b"c"], b"b"), ["BlockRemoved", [b"a"], "GPU"], ["AllBlocksCleared"]], 0],
        [120.0, [stored([b"d", b"e"], b"b")]],
    )
    loaded = load(path)
    assert (loaded.format, loaded.block_tokens) == (Format.KV_EVENTS, 16)
    requests = as_lists(loaded.requests)
    assert requests.times == [0, 10, 20]
    assert requests.blocks == [0, 1, 0, 1, 2, 0, 1, 3, 4]
    assert set(requests.tokens) == {16}
    assert requests.outputs == [-1] * 3
    assert "lower bound" in loaded.notes[0]


def test_blocks_that_follow_at_once_belong_to_the_same_request(tmp_path: Path) -> None:
    path = events(
        tmp_path,
        [1.0, [stored([1, 2]), stored([11])]],
        [1.5, [stored([3], 2)]],
        [3.0, [stored([4], 3), stored([12], 11)]],
        [9.0, [stored([5], 4)]],
    )
    requests = as_lists(load(path).requests)
    assert requests.times == [0, 0, 8]
    assert [requests.blocks[a:b] for a, b in zip(requests.starts, requests.starts[1:], strict=False)] == [
        [0, 1, 2, 3],
        [4, 5],
        [0, 1, 2, 3, 6],
    ]


def test_maps_read_as_arrays_do(tmp_path: Path) -> None:
    event = {"type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": None, "block_size": 16}
    clear = {"type": "AllBlocksCleared"}
    loaded = load(events(tmp_path, {"ts": 4.0, "events": [event, clear], "data_parallel_rank": 0}))
    assert as_lists(loaded.requests).blocks == [0, 1]


@pytest.mark.parametrize("arrays", [True, False], ids=["arrays", "maps"])
def test_structs_as_vllm_publishes_them_are_read(arrays: bool, tmp_path: Path) -> None:
    fields = [
        ("block_hashes", list[int]),
        ("parent_block_hash", int | None),
        ("token_ids", list[int]),
        ("block_size", int),
        ("lora_id", int | None),
        ("medium", str | None),
    ]
    layout = {"array_like": arrays, "omit_defaults": True}
    block_stored = msgspec.defstruct("BlockStored", fields, tag=True, **layout)  # type: ignore[call-overload]  # flags
    cleared = msgspec.defstruct("AllBlocksCleared", [], tag=True, **layout)  # type: ignore[call-overload]  # flags
    head = [("ts", float), ("events", list[object]), ("data_parallel_rank", int | None, None)]
    batch = msgspec.defstruct("KVEventBatch", head, **layout)  # type: ignore[call-overload]  # flags
    event = block_stored([2**63 + 1, 7], None, [0] * 32, 16, None, "GPU")
    loaded = load(events(tmp_path, batch(5.0, [event, cleared()]), batch(9.0, [event], 0)))
    assert as_lists(loaded.requests).blocks == [0, 1, 0, 1]
    assert as_lists(loaded.requests).times == [0, 4]


def test_other_tiers_and_other_layer_groups_are_no_requests(tmp_path: Path) -> None:
    other_group = [*stored([9]), None, None, 1]
    loaded = load(events(tmp_path, [4.0, [stored([1]), stored([1], medium="CPU"), other_group]]))
    assert as_lists(loaded.requests).blocks == [0]


def test_a_start_in_the_middle_and_several_ranks_are_said(tmp_path: Path) -> None:
    loaded = load(events(tmp_path, [4.0, [stored([5], 4)], 0], [5.0, [stored([6], 4)], 1]))
    assert as_lists(loaded.requests).blocks == [0, 1, 0, 2]
    assert loaded.notes[-2:] == (
        "1 requests begin at a block from before the recording",
        "2 data-parallel ranks are read as one cache",
    )


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ([4.0, [["BlockMoved", [1]]]], r":2: events: \['BlockMoved', \[1\]\] is not one of"),
        ([4.0, [7]], ":2: events: 7 is not one of"),
        ([4.0, 5], ":2: events: 5 is not a list"),
        ([4.0, [stored([])]], r":2: block_hashes: \[\] is not a list of hashes"),
        ([4.0, [stored([1.5])]], r":2: block_hashes: \[1\.5\] is not a list of hashes"),
        ([4.0, [stored([1], 2.5)]], r":2: parent_block_hash: 2\.5 is not a hash"),
        ([4.0, [stored([7], size=0)]], ":2: block_size: 0 is not a whole number >= 1"),
        ([4.0, [stored([7], size=32)]], ":2: block_size: 32 is not 16, as before"),
        ([-4.0, []], r":2: ts: -4\.0 is not a number of seconds"),
        ([1.0, []], ":2: ts: 1 is before 2"),
        ("text", ":2: record: 'text' is not a batch"),
        (
            [4.0, [[["BlockStored"], [1], None, [1] * 16, 16]]],
            r":2: events: \[\['BlockStored'\], .* is not one",
        ),
        ([4.0, [], [0]], r":2: data_parallel_rank: \[0\] is not a whole number"),
        ([4.0, [stored([True])]], r":2: block_hashes: \[True\] is not a list of hashes"),
        ([9.0, [stored([3], 8)]], ":2: block_hashes: block 3 follows 8, but nothing earlier"),
    ],
)
def test_a_bad_record_is_named_and_may_be_skipped(batch: object, says: str, tmp_path: Path) -> None:
    path = events(tmp_path, [2.0, [stored([3])]], batch)
    with pytest.raises(TraceError, match=says):
        load(path)
    assert load(path, skip_bad=1).skipped == 1


def test_a_batch_with_a_bad_event_leaves_nothing_behind(tmp_path: Path) -> None:
    mixed = [4.0, [stored([4], size=32), [["BlockStored"]], stored([5], 4)], 7]
    path = events(tmp_path, mixed, [5.0, [stored([6])], 0])
    loaded = load(path, skip_bad=1)
    assert (as_lists(loaded.requests).blocks, loaded.block_tokens) == ([0], 16)
    assert not any("ranks" in note for note in loaded.notes)


def test_a_record_is_not_held_beyond_a_limit(tmp_path: Path) -> None:
    path = events(tmp_path, [2.0, [stored([3])]])
    with path.open("ab") as file:
        file.write((MOST_LINE_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(TraceError, match=r":2: record: is above 67,108,864 bytes"):
        load(path)


def test_a_block_that_is_its_own_ancestor_is_refused(tmp_path: Path) -> None:
    path = events(tmp_path, [1.0, [stored([1], 2)]], [9.0, [stored([2], 1)]], [20.0, [stored([3], 1)]])
    with pytest.raises(TraceError, match="block_hashes"):
        load(path)


@pytest.mark.parametrize("cut", [-1, -30])
def test_a_torn_record_says_how_much_of_it_is_there(cut: int, tmp_path: Path) -> None:
    path = events(tmp_path, [2.0, [stored([3])]], [3.0, [stored([4])]], cut=cut)
    with pytest.raises(TraceError, match=r":2: record: ends after \d+ bytes of \d+"):
        load(path)
    assert as_lists(load(path, skip_bad=1).requests).blocks == [0]


def test_what_is_not_msgpack_is_told(tmp_path: Path) -> None:
    path = events(tmp_path, [2.0, [stored([3])]])
    with path.open("ab") as file:
        write_kv_events(file, [b"\xc1\xc1"])
    with pytest.raises(TraceError, match=":2: record: is not msgpack"):
        load(path)
