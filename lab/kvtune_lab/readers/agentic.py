"""Read run-length coded agent sessions: one request a line, ordered by session, blocks of 64 tokens.

Fields (traces of kv-cache-tester, re-encoded): `s` session, `t` seconds from its start, `in`, `out` tokens,
`stop` (tool_use, end_turn or empty), `agent` (of a sub-agent's request alone), `runs` = start, length, start,
length, ... of block ids, which are local to the session and prefix-chained; full blocks only. Sessions have
no wall-clock start: an overlay, one JSON object of {"trace_0001": start second, ...}, gives it.

Runs are expanded by numpy into arrays made in their final size, so that 26 million references take 0.2 GiB.

Errors: TraceError.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.fields import TIME_LIMIT, given, number_from_zero, whole
from kvtune_lab.readers.loaded import LACKS, Format, Loaded, Whole, as_requests
from kvtune_lab.readers.packing import refuse_empty
from kvtune_lab.readers.source import (
    BYTE_ORDER_MARK,
    MOST_LINE_BYTES,
    KeyTwice,
    Source,
    Unpackable,
    shown,
    strict_json,
    unpacked,
)

BLOCK_TOKENS = 64
KINDS = ("main: tool_use", "main: end_turn", "main: other", "sub-agent: tool_use", "sub-agent: other")
"""What a request ended with, and whose it was; numbered from 1."""

_MOST_IDS = 1 << 28
"""Tables by id take 8 bytes each."""

REQUESTS_ENDING = "_requests"
STARTS_ENDING = "_session_starts"


@dataclass(frozen=True, slots=True)
class _Request:
    line: int
    time_s: float
    session: int
    output_tokens: int
    kind: int
    runs: list[int]


def load_agentic(source: Source, starts: Path | None = None) -> Loaded:
    """Read all requests into arrays, in the order of arrival.

    `starts` is the overlay; without it one is looked for beside the trace, and else all sessions start at 0.
    """
    overlay = starts or _beside(source)
    begin = None if overlay is None else _starts(overlay)
    rows = sorted(_requests(source, begin), key=lambda row: row.time_s)
    refuse_empty(source, len(rows), sum(sum(row.runs[1::2]) for row in rows), "runs")
    if overlay is None:
        note = "no session starts: all sessions start at second 0 (give them by --session-starts)"
    else:
        note = f"session starts from {overlay.name}: hit rates depend on this overlay"
    kept, blocks = _expanded(source, rows)
    refuse_empty(source, len(kept), len(blocks), "runs")
    return _loaded(source, kept, blocks, (*LACKS[Format.AGENTIC], note))


def _loaded(source: Source, rows: list[_Request], blocks: Whole, notes: tuple[str, ...]) -> Loaded:
    import numpy as np

    lengths = [sum(row.runs[1::2]) for row in rows]
    times = np.array([row.time_s for row in rows])
    numbers: dict[int, int] = {}
    return Loaded(
        requests=as_requests(
            np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
            blocks,
            np.full(len(blocks), BLOCK_TOKENS, np.int32),
            times - times[0],
            [row.output_tokens for row in rows],
            [row.kind for row in rows],
        ),
        block_tokens=BLOCK_TOKENS,
        format=Format.AGENTIC,
        sessions=np.array([numbers.setdefault(row.session, len(numbers)) for row in rows], np.int32),
        kind_names=KINDS,
        notes=notes,
        skipped=source.skips.skipped,
    )


def _requests(source: Source, begin: dict[int, float] | None) -> list[_Request]:
    latest: dict[int, float] = {}

    def parse(number: int, row: dict[str, Any]) -> _Request:
        session = whole(source, number, row, "s", 0)
        inner_s = number_from_zero(source, number, row, "t", "seconds")
        if inner_s < latest.get(session, 0.0):
            raise source.error(number, "t", f"{inner_s:g} is before {latest[session]:g}")
        if begin is not None and session not in begin:
            raise source.error(number, "s", f"session {session} has no start in the overlay")
        runs = _runs(source, number, row)
        answer = whole(source, number, row, "out", 0)
        latest[session] = inner_s
        start_s = 0.0 if begin is None else begin[session]
        return _Request(number, start_s + inner_s, session, answer, _kind(row), runs)

    return [row for _, row in source.rows(parse)]


def _kind(row: dict[str, Any]) -> int:
    tool = row.get("stop") == "tool_use"
    if "agent" in row:
        return 4 if tool else 5
    if tool:
        return 1
    return 2 if row.get("stop") == "end_turn" else 3


def _runs(source: Source, number: int, row: dict[str, Any]) -> list[int]:
    runs = given(source, number, row, "runs")
    if not isinstance(runs, list) or len(runs) % 2 or not all(type(x) is int and x >= 0 for x in runs):
        raise source.error(number, "runs", f"{shown(runs)} is not pairs of whole numbers >= 0")
    prompt = whole(source, number, row, "in", 0)
    if sum(runs[1::2]) > prompt // BLOCK_TOKENS:
        raise source.error(number, "runs", f"has {sum(runs[1::2])} blocks where {prompt} tokens fill fewer")
    spans = sorted(zip(runs[::2], runs[1::2], strict=True))
    for (start, length), (after, _) in pairwise(spans):
        if start + length > after:
            raise source.error(number, "runs", f"holds block {after} more than once")
    return runs


def _expanded(source: Source, rows: list[_Request]) -> tuple[list[_Request], Whole]:
    """Number all blocks by first appearance; requests that are not chained are skipped where they may be."""
    import numpy as np

    first: dict[int, int] = {}
    top = 0
    for row in rows:
        last = max((a + n for a, n in zip(row.runs[::2], row.runs[1::2], strict=True)), default=0)
        first[row.session] = max(first.get(row.session, 0), last)
    for session, size in first.items():
        first[session], top = top, top + size
    if top > _MOST_IDS:
        raise source.error(1, "runs", f"block ids reach {top:,} in all sessions, above {_MOST_IDS:,}")
    numbers, before = np.full(top, -1, np.int32), np.full(top, -1, np.int32)
    blocks = np.empty(sum(sum(row.runs[1::2]) for row in rows), np.int32)
    kept, end, known = [], 0, 0
    for row in rows:
        keys = _keys(row, first[row.session])
        found = numbers[keys]
        fresh = keys[found < 0]
        numbers[fresh] = np.arange(known, known + len(fresh), dtype=np.int32)
        found = numbers[keys]
        previous = np.concatenate((np.array([-1], np.int32), found[:-1]))[: len(found)]
        new = found >= known
        before[found[new]] = previous[new]
        chained = before[found] == previous
        if not chained.all():
            numbers[fresh] = -1
            block = int(keys[int(np.argmin(chained))]) - first[row.session]
            source.skips.take(_not_chained(source, row, block))
            continue
        known += len(fresh)
        blocks[end : end + len(found)] = found
        end += len(found)
        kept.append(row)
    return kept, blocks[:end]


def _keys(row: _Request, first: int) -> Whole:
    """The blocks of a request, counted through all sessions."""
    import numpy as np

    runs = [
        np.arange(first + start, first + start + length, dtype=np.int32)
        for start, length in zip(row.runs[::2], row.runs[1::2], strict=True)
    ]
    return np.concatenate(runs) if runs else np.empty(0, np.int32)


def _not_chained(source: Source, row: _Request, block: int) -> TraceError:
    problem = f"block {block} follows another block than earlier: ids must be prefix-chained"
    return source.error(row.line, "runs", problem)


def _beside(source: Source) -> Path | None:
    """Find the overlay beside a trace, by its name; raises TraceError for several."""
    name = source.path.name.partition(".")[0]
    stem = name.removesuffix(REQUESTS_ENDING)
    found = sorted(
        path for path in source.path.parent.iterdir() if path.name.startswith(f"{stem}{STARTS_ENDING}")
    )
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise source.error(
            1, "file", f"several session starts lie beside it: {names} (choose by --session-starts)"
        )
    return found[0] if found else None


def _starts(path: Path) -> dict[int, float]:
    """Start second of each session; names end with its number."""
    starts: dict[int, float] = {}
    for name, value in _overlay(path).items():
        number = name.rpartition("_")[2]
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < TIME_LIMIT
        if not (number.isascii() and number.isdigit() and len(number) < 20) or not good:
            raise TraceError(path, 1, shown(name), f"{shown(value)} is not the start second of a session")
        if int(number) in starts:
            raise TraceError(path, 1, shown(name), f"session {int(number)} has a start already")
        starts[int(number)] = float(value)
    return starts


def _overlay(path: Path) -> dict[str, Any]:
    with path.open("rb") as raw:
        try:
            text = unpacked(raw).read(MOST_LINE_BYTES + 1)
        except Unpackable as error:
            raise TraceError(path, 1, "file", str(error)) from error
    if len(text) > MOST_LINE_BYTES:
        raise TraceError(path, 1, "file", f"is above {MOST_LINE_BYTES:,} bytes")
    try:
        table = strict_json(text.removeprefix(BYTE_ORDER_MARK))
    except KeyTwice as error:
        raise TraceError(path, 1, shown(str(error)), "is there twice") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(path, 1, "line", f"is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise TraceError(path, 1, "line", "is not a JSON object of start seconds")
    return table
