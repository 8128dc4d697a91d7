"""Tell the format of a trace by its first lines, whatever it is called and however it is packed.

Errors: TraceError for a format that is not known, with what the file begins with; OSError where it cannot be
read.
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any

from kvtune_lab.readers.arrivals import AZURE_FIELDS, SERVEGEN_FIELDS
from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.kv_events import looks_like_kv_events
from kvtune_lab.readers.loaded import Format
from kvtune_lab.readers.ragpulse import request_file
from kvtune_lab.readers.source import MOST_LINE_BYTES, Unpackable, numbered_lines, shown, unpacked

_LINES = 10
"""So many lines are looked at, more where more of them may be skipped."""

_HEADINGS = {AZURE_FIELDS: Format.AZURE, SERVEGEN_FIELDS: Format.SERVEGEN}


def detect(path: Path, *, skip_bad: int = 0) -> tuple[Path, Format]:
    """The file of requests (within a folder, for RAGPulse) and its format.

    Up to `skip_bad` bad lines may come first.
    """
    file = request_file(path) if path.is_dir() else path
    first = b""
    with file.open("rb") as raw:
        stream = unpacked(raw)
        try:
            if looks_like_kv_events(stream.peek(16)):
                return file, Format.KV_EVENTS
            for _, line in islice(numbered_lines(stream), max(_LINES, skip_bad + 1)):
                first = first or line
                found = _of_line(line)
                if found is not None:
                    return file, found
        except Unpackable as error:
            if not first:
                raise TraceError(file, 1, "file", str(error)) from error
    if not first:
        raise TraceError(file, 1, "file", "the trace has no request")
    if len(first) > MOST_LINE_BYTES:
        raise TraceError(file, 1, "line", f"is above {MOST_LINE_BYTES:,} bytes")
    names = ", ".join(Format)
    raise TraceError(file, 1, "format", f"{shown(first)} is the first line of none of {names}")


def _of_line(line: bytes) -> Format | None:
    if len(line) > MOST_LINE_BYTES:
        return None
    text = line.decode("utf-8", "replace").strip()
    heading = _HEADINGS.get(tuple(text.split(",")))
    if heading is not None:
        return heading
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _of_row(row) if isinstance(row, dict) else None


def _of_row(row: dict[str, Any]) -> Format | None:
    if "runs" in row and "s" in row:
        return Format.AGENTIC
    if isinstance(row.get("hash_ids"), dict):
        return Format.RAGPULSE
    if "chat_id" in row or "parent_chat_id" in row:
        return Format.BAILIAN
    if {"timestamp", "input_length", "hash_ids"} & row.keys():
        return Format.MOONCAKE
    from kvtune_api.recordings import FORMAT_FIELD

    return Format.RECORDING if str(row.get(FORMAT_FIELD)).startswith(Format.RECORDING) else None
