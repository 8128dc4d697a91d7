"""Small traces for the tests of readers."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

Row = Mapping[str, object]


def lines(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, rows: Iterable[Row]) -> Path:
    path.write_bytes(lines(rows))
    return path


def mooncake(at_ms: float, blocks: list[int], **other: object) -> Row:
    """A row of Mooncake's format whose last block is full."""
    row = {"timestamp": at_ms, "input_length": 512 * len(blocks), "output_length": 5, "hash_ids": blocks}
    return row | other


def bailian(chat: int, parent: int, at_s: float, blocks: list[int], **other: object) -> Row:
    """A row of Bailian's format whose last block is half full."""
    row = {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": at_s,
        "input_length": 16 * len(blocks) - 8,
        "output_length": 7,
        "type": "text",
        "turn": 1 if parent == -1 else 2,
        "hash_ids": blocks,
    }
    return row | other


def agentic(session: int, at_s: float, runs: list[int], **other: object) -> Row:
    row = {"s": session, "t": at_s, "in": 64 * sum(runs[1::2]), "out": 3, "stop": "tool_use", "runs": runs}
    return row | other
