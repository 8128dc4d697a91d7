"""Read traces in Mooncake's format: one JSON object a line, blocks of 512 tokens, the last possibly partial.

Fields: `timestamp` ms, `input_length`, `output_length` tokens, `hash_ids` (kvcache-ai/Mooncake, FAST25
release). Also read by the driver and the grid, request by request: an engine that replays these needs
constants with `block_tokens` = 512 (preset h100-llama8b-512). The session root is block index 1, because
block 0 is the same everywhere in the published conversation trace; a request of one block has its block 0.

Errors: TraceError.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvtune_lab.readers.fields import block_ids, number_from_zero, whole
from kvtune_lab.readers.loaded import LACKS, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row, tokens_of
from kvtune_lab.readers.source import Source
from kvtune_lab.traffic import Request

BLOCK_TOKENS = 512


class _Line(NamedTuple):
    timestamp_ms: float
    prompt_tokens: int
    output_tokens: int
    blocks: list[int]


def load_mooncake(source: Source) -> Loaded:
    """Read all requests into arrays."""
    packing = Packing(source, time_field="timestamp", blocks_field="hash_ids")
    packing.add_all((number, _row(line)) for number, line in _lines(source))
    return packing.loaded(Format.MOONCAKE, block_tokens=BLOCK_TOKENS, notes=LACKS[Format.MOONCAKE])


def read_mooncake(path: Path) -> Iterator[Request]:
    """Yield the requests of a trace once, arrivals counted from its first line.

    Streaming: holds one line. Raises TraceError at the first bad line, or for a trace without requests;
    OSError where the file cannot be read.
    """
    source = Source(path)
    first_ms: float | None = None
    latest_ms = 0.0
    for number, (timestamp_ms, prompt, answer, blocks) in _lines(source):
        if timestamp_ms < latest_ms:
            raise source.error(number, "timestamp", f"{timestamp_ms:g} is before {latest_ms:g}")
        latest_ms = timestamp_ms
        first_ms = timestamp_ms if first_ms is None else first_ms
        root = blocks[1] if len(blocks) > 1 else blocks[0]
        yield Request((timestamp_ms - first_ms) / 1000, root, root, blocks, prompt, answer)
    if first_ms is None:
        raise source.error(1, "file", "the trace has no request")


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


def _lines(source: Source) -> Iterator[tuple[int, _Line]]:
    def parse(number: int, row: dict[str, Any]) -> _Line:
        timestamp_ms = number_from_zero(source, number, row, "timestamp", "milliseconds")
        prompt = whole(source, number, row, "input_length", 1)
        answer = whole(source, number, row, "output_length", 0)
        blocks = block_ids(source, number, row, "hash_ids")
        needed = -(-prompt // BLOCK_TOKENS)
        if len(blocks) != needed:
            raise source.error(
                number, "hash_ids", f"has {len(blocks)} blocks where {prompt} tokens need {needed}"
            )
        return _Line(timestamp_ms, prompt, answer, blocks)

    return source.rows(parse)


def _row(line: _Line) -> Row:
    return Row(
        time_s=line.timestamp_ms / 1000,
        blocks=line.blocks,
        tokens=tokens_of(line.prompt_tokens, len(line.blocks), BLOCK_TOKENS),
        output_tokens=line.output_tokens,
    )
