"""Read RAGPulse: a request file and five files with the lengths of its chunks, all beside one another.

Fields (flashserve/RAGPulse): `timestamp` s (a number or one in quotes), `input_length`, `output_length`,
`session_id`, `hash_ids` = lists of chunk ids under sys_prompt, passages_ids, history, web_search and
user_input, in this order. The files whose names hold 1_sys_prompt, 2_passages, 3_history, 4_user_input and
5_web_search give the `token_length` of each id, at most 512.

Chunks are content and may follow one another in any order, so a block here is a chunk at its place: the pair
of the block before it and the id, as an engine's prefix cache would see it. Requests are sorted by arrival:
the published file has one that is out of order.

Errors: TraceError; OSError where a file cannot be read.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.fields import TIME_LIMIT, given, number_from_zero, whole, written_number
from kvtune_lab.readers.loaded import LACKS, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row
from kvtune_lab.readers.source import Source, shown

PARTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
"""In the order of a prompt."""

LENGTH_FILES = {
    "1_sys_prompt": "sys_prompt_id",
    "2_passages": "passage_id",
    "3_history": "history_id",
    "4_user_input": "user_input_id",
    "5_web_search": "web_search_id",
}
"""Part of a file's name, and the field of its ids."""

REQUEST_FILE = "0_trace"
CHUNK_TOKENS = 512


def request_file(folder: Path) -> Path:
    """Find the one file of requests in a folder; raises TraceError for none or several."""
    found = sorted(path for path in folder.iterdir() if REQUEST_FILE in path.name)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise TraceError(folder, 1, "file", f"needs one file with {REQUEST_FILE} in its name: {names}")
    return found[0]


def load_ragpulse(source: Source) -> Loaded:
    """Read all requests into arrays; `source` is the request file."""
    lengths = _lengths(source)
    nodes: dict[tuple[int, int], int] = {}
    part_of_node: list[int] = []

    def parse(number: int, row: dict[str, Any]) -> Row:
        time_s = _seconds(source, number, row)
        answer = whole(source, number, row, "output_length", 0)
        chunks = _chunks(source, number, row)
        unknown = next((chunk for _, chunk in chunks if chunk not in lengths), None)
        if unknown is not None:
            raise source.error(number, "hash_ids", f"chunk {unknown} has no token_length in any other file")
        blocks, parent = [], 0
        for part, chunk in chunks:
            node = nodes.setdefault((parent, chunk), len(nodes) + 1)
            if node > len(part_of_node):
                part_of_node.append(part)
            blocks.append(node)
            parent = node
        tokens = [lengths[chunk] for _, chunk in chunks]
        session = row.get("session_id")
        if session is not None and not isinstance(session, str | int):
            raise source.error(number, "session_id", f"{shown(session)} is not a text or a number")
        return Row(time_s=time_s, blocks=blocks, tokens=tokens, output_tokens=answer, session=session)

    packing = Packing(source, time_field="timestamp", blocks_field="hash_ids")
    rows = sorted(source.rows(parse), key=lambda numbered: numbered[1].time_s)
    packing.add_all(rows)
    loaded = packing.loaded(Format.RAGPULSE, block_tokens=CHUNK_TOKENS, notes=LACKS[Format.RAGPULSE])
    return _with_parts(loaded, [node for _, row in rows for node in row.blocks], part_of_node)


def _with_parts(loaded: Loaded, nodes: list[Any], part_of_node: list[int]) -> Loaded:
    import numpy as np

    parts = np.zeros(loaded.distinct_blocks, np.uint8)
    by_node = np.asarray(part_of_node, np.uint8)
    parts[np.asarray(loaded.requests.blocks)] = by_node[np.asarray(nodes) - 1]
    return replace(loaded, parts=parts, part_names=PARTS)


def _lengths(source: Source) -> dict[int, int]:
    """Tokens of each chunk, of all the files beside the requests."""
    folder = source.path.parent
    prefix = source.path.name.partition(REQUEST_FILE)[0]
    lengths: dict[int, int] = {}
    for part, field in LENGTH_FILES.items():
        found = sorted(path for path in folder.iterdir() if path.name.startswith(f"{prefix}{part}"))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise source.error(1, "file", f"needs one file {prefix}{part}... beside it: {names}")
        _add_lengths(Source(found[0], source.skips), field, lengths)
    return lengths


def _add_lengths(source: Source, field: str, lengths: dict[int, int]) -> None:
    def parse(number: int, row: dict[str, Any]) -> tuple[int, int]:
        tokens = whole(source, number, row, "token_length", 0)
        return whole(source, number, row, field, 0), tokens

    lengths.update(pair for _, pair in source.rows(parse))


def _seconds(source: Source, number: int, row: dict[str, Any]) -> float:
    value = given(source, number, row, "timestamp")
    if not isinstance(value, str):
        return number_from_zero(source, number, row, "timestamp", "seconds")
    seconds = written_number(value)
    if seconds is None or seconds >= TIME_LIMIT:
        raise source.error(number, "timestamp", f"{shown(value)} is not a number of seconds >= 0")
    return seconds


def _chunks(source: Source, number: int, row: dict[str, Any]) -> list[tuple[int, int]]:
    """The number of the part and the id of each chunk, in the order of the prompt."""
    ids = given(source, number, row, "hash_ids")
    if not isinstance(ids, dict) or not set(ids) <= set(PARTS):
        raise source.error(number, "hash_ids", f"{shown(ids)} is not an object of {', '.join(PARTS)}")
    lists = [[] if ids.get(name) is None else ids[name] for name in PARTS]
    if not all(isinstance(each, list) for each in lists):
        raise source.error(number, "hash_ids", f"{shown(ids)} holds something else than lists")
    chunks = [(part, chunk) for part, each in enumerate(lists) for chunk in each]
    wrong = next((chunk for _, chunk in chunks if type(chunk) is not int or chunk < 0), None)
    if wrong is not None:
        raise source.error(number, "hash_ids", f"holds {shown(wrong)}, which is not a whole number >= 0")
    return chunks
