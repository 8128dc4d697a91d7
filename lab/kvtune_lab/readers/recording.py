"""Read and write recordings of kvtune's own agents, in the format of kvtune_api.recordings.

Errors: TraceError for what is read, ValueError for what is to be written.
"""

from collections.abc import Iterable
from typing import IO, Any

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.hints import Hint
from kvtune_api.recordings import FORMAT_FIELD, RECORDING, Recorded, heading, line
from kvtune_lab.readers.fields import block_ids, number_from_zero, partial_or_full, whole
from kvtune_lab.readers.loaded import UNKNOWN, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row, tokens_of
from kvtune_lab.readers.source import Source, shown


def write_recording(file: IO[str], requests: Iterable[Recorded], *, block_tokens: int) -> int:
    """Write a recording, line by line; returns how many requests it holds.

    Raises ValueError for a time that goes back, or blocks that do not fit the prompt.
    """
    file.write(heading(block_tokens))
    count, latest_s = 0, 0.0
    for request in requests:
        file.write(line(request, block_tokens=block_tokens, after_s=latest_s))
        latest_s = request.arrival_s
        count += 1
    return count


def load_recording(source: Source) -> Loaded:
    """Read all requests into arrays; raises TraceError for another version."""
    block_tokens = 0

    def parse(number: int, row: dict[str, Any]) -> Row | None:
        nonlocal block_tokens
        if block_tokens == 0:
            if row.get(FORMAT_FIELD) != RECORDING:
                raise source.error(number, FORMAT_FIELD, f"{shown(row.get(FORMAT_FIELD))} is not {RECORDING}")
            block_tokens = whole(source, number, row, "blockTokens", 1)
            return None
        return _row(source, number, row, block_tokens)

    packing = Packing(source, time_field="t", blocks_field="blocks")
    packing.add_all((number, row) for number, row in source.rows(parse) if row is not None)
    return packing.loaded(Format.RECORDING, block_tokens=block_tokens)


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
