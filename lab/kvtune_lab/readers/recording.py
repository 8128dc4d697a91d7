"""Read and write recordings of kvtune's own agents: JSON lines, without any text of a prompt.

The first line is `{"format": "kvtune-recording/1", "blockTokens": 16}`, each further one a request:
`{"t": 12.5, "session": "a1", "blocks": [7, 8, 9], "prompt": 40, "output": 12, "kind": "chat"}`: arrival in
seconds, never going back; prefix-chained ids of its blocks, whole numbers below 2^64, head first, the last
possibly partial (then it may also be left out); tokens of prompt and answer. `session`, `output` and `kind`
may be missing: not known. So may be `hint`, what the client told of its session, such as
`{"sessionEnded": true}`, `{"toolRunning": true}` or `{"expectedReturnSeconds": 30}`.

Errors: TraceError for what is read, ValueError for what is to be written.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from kvtune_api.codec import dump, parse
from kvtune_api.errors import SpecError
from kvtune_api.hints import Hint
from kvtune_lab.readers.fields import block_ids, number_from_zero, partial_or_full, whole
from kvtune_lab.readers.loaded import UNKNOWN, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row, tokens_of
from kvtune_lab.readers.source import Source, shown

FORMAT_FIELD = "format"
VERSION = "kvtune-recording/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request of a recording; None is not known."""

    arrival_s: float
    blocks: Sequence[int]
    prompt_tokens: int
    output_tokens: int | None = None
    session: str | None = None
    kind: str | None = None
    hint: Hint | None = None


def write_recording(file: IO[str], requests: Iterable[Recorded], *, block_tokens: int) -> int:
    """Write a recording, line by line; returns how many requests it holds.

    Raises ValueError for a time that goes back, or blocks that do not fit the prompt.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens: {block_tokens} is less than 1")
    file.write(json.dumps({FORMAT_FIELD: VERSION, "blockTokens": block_tokens}) + "\n")
    count, latest_s = 0, 0.0
    for request in requests:
        if not latest_s <= request.arrival_s < float("inf"):
            raise ValueError(f"arrival_s: {request.arrival_s} is before {latest_s}, or not finite")
        if (
            not request.prompt_tokens // block_tokens
            <= len(request.blocks)
            <= -(-request.prompt_tokens // block_tokens)
        ):
            raise ValueError(f"blocks: {len(request.blocks)} for {request.prompt_tokens} prompt tokens")
        latest_s = request.arrival_s
        file.write(json.dumps(_line(request), separators=(",", ":")) + "\n")
        count += 1
    return count


def load_recording(source: Source) -> Loaded:
    """Read all requests into arrays; raises TraceError for another version."""
    block_tokens = 0

    def parse(number: int, row: dict[str, Any]) -> Row | None:
        nonlocal block_tokens
        if block_tokens == 0:
            if row.get(FORMAT_FIELD) != VERSION:
                raise source.error(number, FORMAT_FIELD, f"{shown(row.get(FORMAT_FIELD))} is not {VERSION}")
            block_tokens = whole(source, number, row, "blockTokens", 1)
            return None
        return _row(source, number, row, block_tokens)

    packing = Packing(source, time_field="t", blocks_field="blocks")
    packing.add_all((number, row) for number, row in source.rows(parse) if row is not None)
    return packing.loaded(Format.RECORDING, block_tokens=block_tokens)


def _line(request: Recorded) -> dict[str, object]:
    row: dict[str, object] = {
        "t": request.arrival_s,
        "session": request.session,
        "blocks": list(request.blocks),
        "prompt": request.prompt_tokens,
        "output": request.output_tokens,
        "kind": request.kind,
        "hint": None if request.hint is None else dump(request.hint),
    }
    return {name: value for name, value in row.items() if value is not None}


def _row(source: Source, number: int, row: dict[str, Any], block_tokens: int) -> Row:
    prompt = whole(source, number, row, "prompt", 0)
    blocks = block_ids(source, number, row, "blocks")
    partial_or_full(source, number, blocks, prompt_tokens=prompt, block_tokens=block_tokens, name="blocks")
    return Row(
        time_s=number_from_zero(source, number, row, "t", "seconds"),
        blocks=blocks,
        tokens=tokens_of(prompt, len(blocks), block_tokens),
        output_tokens=whole(source, number, row, "output", 0) if "output" in row else UNKNOWN,
        kind=_word(source, number, row, "kind") or "",
        session=_word(source, number, row, "session"),
        hint=_hint(source, number, row).returns_in_seconds if "hint" in row else 0.0,
    )


def _hint(source: Source, number: int, row: dict[str, Any]) -> Hint:
    try:
        return parse(Hint, row["hint"], root="hint")
    except SpecError as error:
        first = error.problems[0]
        raise source.error(number, first.path, first.message) from error


def _word(source: Source, number: int, row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise source.error(number, name, f"{shown(value)} is not a text")
    return value
