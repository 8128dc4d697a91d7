"""Sizes in blocks, bytes and shares of the distinct blocks."""

import pytest

from kvtune_lab.sizes import (
    Blocks,
    Bytes,
    Share,
    Size,
    SizeError,
    in_bytes,
    parse_bytes,
    parse_size,
    size_in_blocks,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("18279", Blocks(18_279)),
        ("64GiB", Bytes(64 * 2**30)),
        ("64Gi", Bytes(64 * 2**30)),
        ("64 GB", Bytes(64 * 10**9)),
        ("1.5TiB", Bytes(1536 * 2**30)),
        ("512B", Bytes(512)),
        ("10%", Share(0.1)),
        ("0.2%", Share(0.002)),
        ("150%", Share(1.5)),
    ],
)
def test_sizes_are_read(text: str, size: Size) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0", "0 is less than 1 block"),
        ("0GiB", "0GiB is less than 1 block"),
        ("0%", "0% is less than 1 block"),
        ("-3", "'-3' is not a size such as 18279 (blocks), 64GiB or 10%"),
        ("nan", "'nan' is not a size"),
        ("1e3", "'1e3' is not a size"),
        ("8XB", "'8XB' is not a size"),
        ("", "'' is not a size"),
        ("2.5", "2.5 is not a whole number of blocks"),
        ("99999999999", "99999999999 is not a whole number of blocks of at most 2,147,483,647"),
    ],
)
def test_another_form_is_refused(text: str, says: str) -> None:
    with pytest.raises(SizeError) as error:
        parse_size(text)
    assert says in str(error.value)


def test_bytes_alone() -> None:
    assert parse_bytes("2KiB") == 2048
    with pytest.raises(SizeError, match="'2048' is not a number of bytes such as 64GiB"):
        parse_bytes("2048")


@pytest.mark.parametrize(
    ("size", "blocks"), [(Blocks(7), 7), (Bytes(4095), 3), (Share(0.25), 25), (Share(1e-9), 1)]
)
def test_sizes_become_blocks(size: Size, blocks: int) -> None:
    assert size_in_blocks(size, distinct_blocks=100, bytes_per_block=1024) == blocks


def test_bytes_need_the_bytes_of_a_block_and_room_for_one() -> None:
    with pytest.raises(SizeError, match="64 GiB needs the bytes of a token"):
        size_in_blocks(Bytes(2**36), distinct_blocks=1, bytes_per_block=None)
    with pytest.raises(SizeError, match="1023 B holds no block of 1 KiB"):
        size_in_blocks(Bytes(1023), distinct_blocks=1, bytes_per_block=1024)


def test_bytes_for_a_person() -> None:
    assert [in_bytes(n) for n in (0, 1023, 1536, 2**40)] == ["0 B", "1023 B", "1.5 KiB", "1 TiB"]
