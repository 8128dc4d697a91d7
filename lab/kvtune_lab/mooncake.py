"""Read traces in Mooncake's format: one JSON object a line, gzipped or not.

Called by the driver and the grid. Blocks stay the trace's own, of 512 tokens, the last one possibly
partial: an engine that replays them needs constants with `block_tokens` = 512 (preset h100-llama8b-512),
which keeps a request at a quarter of the work that 128-token blocks would make. The session root is block
index 1, because block 0 is the same everywhere in the published traces; a request of one block has its
block 0.

Errors: TraceError (a ValueError) says the line, the field and what was expected. Timestamps are milliseconds.
"""

import json
import zlib
from collections.abc import Iterator
from gzip import GzipFile
from io import BufferedReader
from pathlib import Path

from kvtune_lab.traffic import Request

BLOCK_TOKENS = 512
_GZIP_MAGIC = b"\x1f\x8b"


class TraceError(ValueError):
    """Tell the user what is wrong with which line of a trace."""

    def __init__(self, line: int, field: str, problem: str) -> None:
        """Name the line (from 1), the field and the problem."""
        super().__init__(f"line {line}: {field}: {problem}")
        self.line = line
        self.field = field


def read_mooncake(path: Path) -> Iterator[Request]:
    """Yield the requests of a trace once, arrivals counted from its first line.

    Streaming: holds one line. Raises TraceError at the first bad line, or for a trace without requests;
    OSError where the file cannot be read.
    """
    first_ms: float | None = None
    latest_ms = float("-inf")
    with _open(path) as lines:
        number = 0
        for number, line in _numbered(lines):
            if not line.strip():
                continue
            timestamp_ms, prompt, answer, blocks = _parse(number, line)
            if timestamp_ms < latest_ms:
                raise TraceError(number, "timestamp", f"{timestamp_ms:g} is before {latest_ms:g}")
            latest_ms = timestamp_ms
            first_ms = timestamp_ms if first_ms is None else first_ms
            root = blocks[1] if len(blocks) > 1 else blocks[0]
            yield Request((timestamp_ms - first_ms) / 1000, root, root, blocks, prompt, answer)
    if first_ms is None:
        raise TraceError(number, "timestamp", "the trace has no request")


def repeat_mooncake(path: Path) -> Iterator[Request]:
    """Yield a trace again and again, every pass under a fresh salt: its ids are new, so passes share nothing.

    A pass starts one mean gap between requests after the last arrival of the one before (1 s for a single
    request).
    """
    salt, start_s = 0, 0.0
    while True:
        highest, count, last_s = 0, 0, 0.0
        for request in read_mooncake(path):
            highest = max(highest, *request.blocks)
            count += 1
            last_s = request.arrival_s
            yield Request(
                start_s + request.arrival_s,
                request.session + salt,
                request.root + salt,
                [block + salt for block in request.blocks] if salt else request.blocks,
                request.prompt_tokens,
                request.output_tokens,
            )
        salt += highest + 1
        start_s += last_s + (last_s / (count - 1) if last_s else 1.0)


def _open(path: Path) -> GzipFile | BufferedReader:
    """Open a trace for reading, unpacking it where its first bytes say gzip."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP_MAGIC
    return GzipFile(path) if packed else path.open("rb")


def _numbered(lines: GzipFile | BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Number the lines from 1; what cannot be unpacked is a TraceError at the line after the last good."""
    number = 0
    while True:
        try:
            line = lines.readline()
        except (EOFError, OSError, zlib.error) as error:
            raise TraceError(number + 1, "file", f"cannot be unpacked: {error}") from error
        if not line:
            return
        number += 1
        yield number, line


def _parse(number: int, line: bytes) -> tuple[float, int, int, list[int]]:
    """Check one line; return timestamp in ms, prompt tokens, answer tokens, blocks."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TraceError(number, "line", f"is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise TraceError(number, "line", "is not a JSON object")
    timestamp = row.get("timestamp")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float) or not timestamp >= 0:
        raise TraceError(number, "timestamp", f"{timestamp!r} is not a number of milliseconds >= 0")
    prompt = _whole(number, row, "input_length", 1)
    answer = _whole(number, row, "output_length", 0)
    return float(timestamp), prompt, answer, _blocks(number, row, prompt)


def _whole(number: int, row: dict[str, object], field: str, least: int) -> int:
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TraceError(number, field, f"{value!r} is not a whole number >= {least}")
    return value


def _blocks(number: int, row: dict[str, object], prompt_tokens: int) -> list[int]:
    blocks = row.get("hash_ids")
    if not isinstance(blocks, list) or not all(type(block) is int and block >= 0 for block in blocks):
        raise TraceError(number, "hash_ids", "is not a list of whole numbers >= 0")
    if len(set(blocks)) < len(blocks):
        twice = next(block for block in blocks if blocks.count(block) > 1)
        raise TraceError(number, "hash_ids", f"holds block {twice} more than once")
    needed = -(-prompt_tokens // BLOCK_TOKENS)
    if len(blocks) != needed:
        raise TraceError(
            number, "hash_ids", f"has {len(blocks)} blocks where {prompt_tokens} tokens need {needed}"
        )
    return blocks
