"""What every format promises: time goes on, ids are prefix-chained; what is not known is not zero."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_lab.readers.errors import Skips, TraceError
from kvtune_lab.readers.loaded import Format, as_lists
from kvtune_lab.readers.packing import Packing, Row, tokens_of
from kvtune_lab.readers.source import Source

chains = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=20)


def packing(skip: int = 0) -> Packing:
    return Packing(Source(Path("trace"), Skips(skip)), time_field="t", blocks_field="ids")


def row(time_s: float, blocks: list[object], **other: object) -> Row:
    return Row(time_s=time_s, blocks=blocks, tokens=[16] * len(blocks), **other)  # type: ignore[arg-type]  # a test's


@given(chains)
def test_blocks_are_numbered_by_first_appearance_whatever_their_ids(paths: list[list[int]]) -> None:
    found = packing()
    for i, path in enumerate(paths):
        found.add(i + 1, row(i, [tuple(path[: j + 1]) for j in range(len(path))]))
    blocks = np.asarray(found.loaded(Format.RECORDING, block_tokens=16).requests.blocks)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(p[: j + 1]), len(seen)) for p in paths for j in range(len(p))]
    assert blocks.tolist() == expected


@given(chains, st.integers(0, 1), st.sampled_from(["", "x"]))
def test_ids_that_are_the_numbers_already_are_no_special_case(
    paths: list[list[int]], shift: int, prefix: str
) -> None:
    numbers: dict[tuple[int, ...], int] = {}
    plain, named = packing(skip=99), packing(skip=99)
    for i, path in enumerate(paths):
        mine = [
            numbers.setdefault(tuple(path[: j + 1]), len(numbers) + shift * (i > 3)) for j in range(len(path))
        ]
        mine = mine[::-1] if len(path) == 4 else mine  # not chained
        plain.add_all([(i, row(i, [*mine]))])
        named.add_all([(i, row(i, [f"{prefix}{x}" for x in mine]))])
    one, other = (found.loaded(Format.RECORDING, block_tokens=16) for found in (plain, named))
    assert as_lists(one.requests) == as_lists(other.requests)
    assert one.skipped == other.skipped


@pytest.mark.parametrize("blocks", [[0, 0], [0, 1, 1]])
def test_a_new_number_twice_in_a_request_is_told(blocks: list[object]) -> None:
    with pytest.raises(TraceError, match=r"trace:3: ids: block [01] follows"):
        packing().add(3, row(0, blocks))


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ([1, 3], "trace:7: ids: block 3 follows 1, but 2 earlier"),
        ([2], "block 2 follows nothing, but 1 earlier"),
        ([9, 1], "block 1 follows 9, but nothing earlier"),
        ([1, 8, 2], "block 2 follows 8, but 1 earlier"),
    ],
)
def test_a_block_with_another_predecessor_is_refused(blocks: list[object], says: str) -> None:
    found = packing()
    found.add(1, row(0, [1, 2, 3]))
    with pytest.raises(TraceError, match=says):
        found.add(7, row(1, blocks))


def test_a_refused_request_leaves_no_trace() -> None:
    found = packing(skip=2)
    found.add_all(
        [
            (1, row(0, [1, 2])),
            (2, row(1, [7, 8, 2])),
            (3, row(2, [8, 9])),
            (4, row(1, [5])),
            (5, row(3, [1, 2, 7])),
        ]
    )
    loaded = found.loaded(Format.RECORDING, block_tokens=16)
    assert as_lists(loaded.requests).blocks == [0, 1, 2, 3, 0, 1, 4]
    assert loaded.skipped == 2


def test_time_that_goes_back_is_refused() -> None:
    found = packing()
    found.add(1, row(5, [1]))
    with pytest.raises(TraceError, match=r"trace:2: t: 4\.5 s is before 5 s, the request before it"):
        found.add(2, row(4.5, [1]))


def test_what_is_not_known_is_not_zero() -> None:
    found = packing()
    found.add(1, row(0, [1], session="a", kind="chat"))
    found.add(2, row(0, [1]))
    loaded = found.loaded(Format.RECORDING, block_tokens=16)
    assert loaded.sessions is not None and loaded.sessions.tolist() == [0, -1]
    assert as_lists(loaded.requests).outputs == [-1, -1]
    assert as_lists(loaded.requests).kinds == [1, 0]
    assert (loaded.turns, loaded.kind_names) == (None, ("chat",))


def test_more_kinds_than_policies_tell_apart_end_in_one() -> None:
    found = packing()
    for i in range(8):
        found.add(i + 1, row(0, [1], kind=f"k{i}"))
    loaded = found.loaded(Format.RECORDING, block_tokens=16)
    assert as_lists(loaded.requests).kinds == [1, 2, 3, 4, 5, 5, 5, 5]
    assert loaded.kind_names == ("k0", "k1", "k2", "k3", "other")
    assert loaded.notes == ("8 request types: all but the first 4 count as one",)


def test_requests_without_any_block_are_refused() -> None:
    found = packing()
    found.add(1, row(0, []))
    with pytest.raises(TraceError, match="trace:1: ids: none of 1 requests has a block"):
        found.loaded(Format.RECORDING, block_tokens=16)


@pytest.mark.parametrize(
    ("prompt", "blocks", "tokens"),
    [(40, 3, [16, 16, 8]), (40, 2, [16, 16]), (32, 2, [16, 16]), (5, 1, [5]), (5, 0, [])],
)
def test_the_last_block_holds_what_is_left(prompt: int, blocks: int, tokens: list[int]) -> None:
    assert list(tokens_of(prompt, blocks, 16)) == tokens


def test_an_id_far_above_all_numbers_costs_no_memory() -> None:
    found = packing()
    found.add(1, row(0, [0, 1]))
    found.add(2, row(1, [0, 2**60]))

    assert as_lists(found.loaded(Format.RECORDING, block_tokens=16).requests).blocks == [0, 1, 0, 2]
