"""Files as streams: packed or not, damaged or not, and how many bad rows may be skipped."""

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard

from kvtune_lab.readers.errors import Skips, TraceError
from kvtune_lab.readers.load import load, load_arrivals
from kvtune_lab.readers.loaded import Format
from kvtune_lab.readers.source import BYTE_ORDER_MARK, MOST_LINE_BYTES, Source
from tests.lab.readers.files import lines, mooncake, write
from tests.lab.readers.test_detect import HEADS

ROWS = [mooncake(1000 * i, [0, i + 1]) for i in range(2000)]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        gzip.compress,
        zstd,
        lambda data: zstd(data[:5000]) + zstd(data[5000:]),
        lambda data: gzip.compress(data[:5000]) + gzip.compress(data[5000:]),
    ],
    ids=["plain", "gzip", "zstd", "two zstd frames", "two gzip members"],
)
def test_a_trace_reads_the_same_however_it_is_packed_and_called(pack, tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(pack(lines(ROWS)))
    requests = load(path).requests
    assert len(requests.times) == 2000
    assert np.asarray(requests.blocks)[-2:].tolist() == [0, 2000]


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_torn_packed_trace_says_after_which_line(pack, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(pack(lines(ROWS))[:-9])
    with pytest.raises(TraceError, match=r"trace:\d+: file: cannot be unpacked: .*end"):
        load(path)


def test_what_lies_before_the_tear_is_kept_where_a_bad_row_may_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(lines(ROWS))[:-600])
    loaded = load(path, skip_bad=1)
    assert 100 < len(loaded.requests.times) < 2000
    assert loaded.skipped == 1


@pytest.mark.parametrize("rows", [20, 2000])
def test_all_whole_lines_before_the_tear_of_a_gzip_are_read(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    packed = gzip.compress(lines(ROWS[:rows]))
    cut = packed[: len(packed) * 9 // 10]
    path.write_bytes(cut)
    whole = zlib.decompressobj(wbits=31).decompress(cut).count(b"\n")
    assert whole > 0
    assert len(load(path, skip_bad=1).requests.times) == whole
    with pytest.raises(TraceError, match=f":{whole + 1}: file: cannot be unpacked"):
        load(path)


def test_a_line_is_not_held_beyond_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(lines(ROWS[:2]) + b"9" * 3 * MOST_LINE_BYTES + b"\n" + lines(ROWS[2:3]))
    with pytest.raises(TraceError, match=r":3: line: is above 67,108,864 bytes"):
        load(path)
    assert len(load(path, skip_bad=1).requests.times) == 3
    path.write_bytes(b"9" * 2 * MOST_LINE_BYTES)
    with pytest.raises(TraceError, match=r":1: line: is above"):
        load(path)


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(BYTE_ORDER_MARK + lines(ROWS[:1]))
    assert len(load(path).requests.times) == 1
    path.write_bytes(gzip.compress(BYTE_ORDER_MARK + HEADS[Format.AZURE]))
    assert len(load_arrivals(path).times) == 1


def test_as_many_first_lines_may_be_bad_as_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"{nope\n" * 30 + lines(ROWS[:1]))
    assert load(path, skip_bad=30).skipped == 30
    with pytest.raises(TraceError, match=":1: format"):
        load(path, skip_bad=29)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (
            b'{"timestamp": 9, "timestamp": 8, "input_length": 1, "output_length": 1, "hash_ids": [1]}',
            "timestamp",
        ),
        (
            b'{"timestamp": 9, "input_length": 1, "output_length": 1, "hash_ids": [], "x": {"y": 1, "y": 2}}',
            "y",
        ),
    ],
)
def test_a_key_that_is_there_twice_is_a_bad_row(line: bytes, field: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(lines(ROWS[:1]) + line + b"\n")
    with pytest.raises(TraceError, match=f":2: {field}: is there twice"):
        load(path)


def test_a_colon_in_a_text_is_no_key(tmp_path: Path) -> None:
    path = write(tmp_path / "trace", [{**mooncake(0, [1]), "note": "a:b::c", "more": {"d": ":"}}])
    assert len(load(path).requests.times) == 1


def test_a_packed_file_damaged_within_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    data = bytearray(gzip.compress(lines(ROWS)))
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(TraceError, match=r"cannot be unpacked|is not JSON"):
        load(path)


def test_bad_rows_are_counted_and_skipped_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(lines(ROWS[:2]) + b"{nope\n\n[3]\n" + lines(ROWS[1:4]))
    with pytest.raises(TraceError, match=r":3: line: \{nope is not JSON"):
        load(path)
    with pytest.raises(TraceError, match=r":5: .*is not a JSON object \(bad row 2, where 1 may be skipped\)"):
        load(path, skip_bad=1)
    loaded = load(path, skip_bad=2)
    assert loaded.skipped == 2
    assert np.asarray(loaded.requests.times).tolist() == [0, 1, 1, 2, 3]


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="skip_bad: -1 is less than 0"):
        Skips(-1)


def test_a_trace_of_bad_rows_alone_is_still_empty(tmp_path: Path) -> None:
    path = write(tmp_path / "trace", [mooncake(-1, [0])])
    with pytest.raises(TraceError, match=r":1: file: the trace has no request beside 1 bad row$"):
        load(path, skip_bad=5)


def test_an_unreadable_trace_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_progress_is_told_as_a_share(tmp_path: Path) -> None:
    told: list[float] = []
    path = write(tmp_path / "trace", ROWS)
    load(path, progress=told.append)
    assert len(told) >= 3
    assert all(0 <= share <= 1 for share in told)
    assert told == sorted(told)


def test_a_binary_line_is_shown_short_and_printable(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xff\x00{" * 100 + b"\n")
    with pytest.raises(TraceError) as told:
        list(Source(path).rows(lambda number, row: row))
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 250 + len(str(path))
