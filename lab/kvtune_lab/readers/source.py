"""One file of a trace as a stream: unpacked by its first bytes, line by line, with progress and skips.

Holds one line (or one block of the packed file) at a time. Called by every reader.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from gzip import GzipFile
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import msgspec

from kvtune_lab.readers.errors import Skips, TraceError

T = TypeVar("T")

Progress: TypeAlias = Callable[[float], None]
"""Is told the share of the file that has been read, from 0 to 1."""

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors begin a text with it; it is no part of the first line."""

MOST_LINE_BYTES = 64 << 20
"""A line, or a record, is held whole; longer ones are none of a trace."""

_READ_BYTES = 1 << 16
_LINES_BETWEEN_PROGRESS = 512


class KeyTwice(ValueError):
    """An object of JSON holds this key twice: which of the values is meant?"""


class Unpackable(OSError):
    """A packed stream is damaged or ends too early."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, and what to do on the way; readers of several files share the skips."""

    path: Path
    skips: Skips = field(default_factory=Skips)
    progress: Progress | None = None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Number the lines that are not blank, from 1; a damaged end is one bad row.

        Raises TraceError, and OSError where the file cannot be read.
        """
        number = 0
        with self.path.open("rb") as raw:
            size = self.path.stat().st_size
            try:
                for number, line in numbered_lines(unpacked(raw)):
                    if self.progress is not None and number % _LINES_BETWEEN_PROGRESS == 0:
                        self.progress(raw.tell() / size)
                    if len(line) > MOST_LINE_BYTES:
                        self.skips.take(self.error(number, "line", f"is above {MOST_LINE_BYTES:,} bytes"))
                    else:
                        yield number, line
            except Unpackable as error:
                self.skips.take(self.error(number + 1, "file", str(error)))

    def rows(self, parse: Callable[[int, dict[str, Any]], T]) -> Iterator[tuple[int, T]]:
        """Parse each line as a JSON object; bad lines are skipped as far as they may be."""
        for number, line in self.lines():
            try:
                row = parse(number, self.object(number, line))
            except TraceError as error:
                self.skips.take(error)
                continue
            yield number, row

    def object(self, number: int, line: bytes) -> dict[str, Any]:
        """Parse one line as a JSON object; raises TraceError."""
        try:
            row = _decoded(line)
            if type(row) is dict and line.count(b":") > len(row):
                strict_json(line)
        except KeyTwice as error:
            name = shown(str(error).encode("utf-8", "replace"))
            raise self.error(number, name, "is there twice") from error
        except (ValueError, RecursionError) as error:
            raise self.error(number, "line", f"{shown(line)} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise self.error(number, "line", f"{shown(line)} is not a JSON object")
        return row

    def error(self, number: int, name: str, problem: str) -> TraceError:
        """Say what is wrong with a line of this file."""
        return TraceError(self.path, number, name, problem)


def numbered_lines(stream: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Number the lines that are not blank, from 1; of a line that is too long only the first bytes.

    These are more than MOST_LINE_BYTES. Raises Unpackable behind the last whole line.
    """
    number, longest = 1, MOST_LINE_BYTES + 1
    line = stream.readline(longest).removeprefix(BYTE_ORDER_MARK)
    while line:
        if not line.isspace():
            yield number, line
        while len(line) == longest and not line.endswith(b"\n"):
            line = stream.readline(longest)
        line = stream.readline(longest)
        number += 1


def strict_json(text: bytes) -> Any:
    """Parse JSON in which no object may hold a key twice, slowly; raises KeyTwice or another ValueError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise KeyTwice(next(name for name in names if names.count(name) > 1))
        return found

    return json.loads(text, object_pairs_hook=once)


def _decoded(line: bytes) -> Any:
    """Parse one line as JSON, fast; what the fast parser refuses the standard one decides, and explains."""
    try:
        return msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return json.loads(line)


def unpacked(raw: IO[bytes]) -> BufferedReader:
    """Read through gzip or zstd where the first bytes say so; damage raises Unpackable."""
    magic = raw.read(len(ZSTD_MAGIC))
    raw.seek(0)
    if magic.startswith(GZIP_MAGIC):
        return BufferedReader(_Gunzipped(raw), _READ_BYTES)
    if magic == ZSTD_MAGIC:
        return BufferedReader(_Unzstd(raw), _READ_BYTES)
    return BufferedReader(_Plain(raw), _READ_BYTES)


def shown(value: object) -> str:
    """A value for an error message: one short line."""
    text = value.decode("utf-8", "replace").strip() if isinstance(value, bytes) else repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class _Plain(RawIOBase):
    """The file as it is."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = self._read(len(room))
        room[: len(data)] = data
        return len(data)

    def _read(self, most: int) -> bytes:
        return self._raw.read(most)


class _Gunzipped(_Plain):
    """What a gzip file holds."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(raw)
        self._file = GzipFile(fileobj=raw)

    def _read(self, most: int) -> bytes:
        try:
            return self._file.read1(most)  # where read() fails, it loses what it has
        except (EOFError, OSError, zlib.error) as error:
            raise Unpackable(f"cannot be unpacked: {error}") from error


class _Unzstd(_Plain):
    """What a zstd file holds, frame after frame."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(raw)
        import zstandard

        self._library = zstandard
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = b""

    def _read(self, most: int) -> bytes:
        while not self._ready:
            packed = self._frame.unused_data if self._frame.eof else b""
            packed = packed or self._raw.read(_READ_BYTES)
            if not packed:
                if not self._frame.eof:
                    raise Unpackable("cannot be unpacked: the zstd frame ends too early")
                return b""
            if self._frame.eof:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                self._ready = self._frame.decompress(packed)
            except self._library.ZstdError as error:
                raise Unpackable(f"cannot be unpacked: {error}") from error
        data, self._ready = self._ready[:most], self._ready[most:]
        return data
