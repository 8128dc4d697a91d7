"""Fields of a row of JSON, checked: each failure names the line, the field and the value."""

import re
from typing import Any

from kvtune_lab.readers.source import Source, shown

MOST = 2**31 - 1
"""Counts are kept in 32 bits."""

TIME_LIMIT = 2.0**53
"""Times below it are exact to a second, whatever the unit."""

_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")


def given(source: Source, line: int, row: dict[str, Any], name: str) -> Any:
    """The value of a field; raises TraceError where it is missing."""
    if name not in row:
        raise source.error(line, name, "is missing")
    return row[name]


def number_from_zero(source: Source, line: int, row: dict[str, Any], name: str, unit: str) -> float:
    """A number from 0 to TIME_LIMIT; raises TraceError with the unit that was expected."""
    value: Any = row.get(name)
    if type(value) not in (int, float) or not 0 <= value < TIME_LIMIT:
        value = given(source, line, row, name)
        raise source.error(line, name, f"{shown(value)} is not a number of {unit} >= 0")
    return float(value)


def written_number(text: str, *, whole: bool = False) -> float | None:
    """A number >= 0 that is written as a text, by the rules of JSON; None where it is something else."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or (whole and (found[1] or found[2])):
        return None
    return float(text)


def whole(source: Source, line: int, row: dict[str, Any], name: str, least: int) -> int:
    """A whole number of at least so much, at most MOST; raises TraceError."""
    value: Any = row.get(name)
    if type(value) is int and least <= value <= MOST:
        return value
    value = given(source, line, row, name)
    if type(value) is not int or value < least:
        raise source.error(line, name, f"{shown(value)} is not a whole number >= {least}")
    raise source.error(line, name, f"{shown(value)} is above {MOST:,}")


def block_ids(source: Source, line: int, row: dict[str, Any], name: str) -> list[int]:
    """A list of whole numbers >= 0, each once; raises TraceError."""
    blocks = given(source, line, row, name)
    if not isinstance(blocks, list):
        raise source.error(line, name, f"{shown(blocks)} is not a list of whole numbers >= 0")
    if not set(map(type, blocks)) <= {int} or min(blocks, default=0) < 0:
        wrong = next(block for block in blocks if type(block) is not int or block < 0)
        raise source.error(line, name, f"holds {shown(wrong)}, which is not a whole number >= 0")
    if len(set(blocks)) < len(blocks):
        twice = next(block for block in blocks if blocks.count(block) > 1)
        raise source.error(line, name, f"holds block {twice} more than once")
    return blocks


def partial_or_full(
    source: Source, line: int, blocks: list[int], *, prompt_tokens: int, block_tokens: int, name: str
) -> None:
    """Refuse blocks that are neither all of the prompt nor all but a partial last one."""
    full, needed = prompt_tokens // block_tokens, -(-prompt_tokens // block_tokens)
    if len(blocks) not in (full, needed):
        raise source.error(
            line,
            name,
            f"has {len(blocks)} blocks where {prompt_tokens} tokens fill {full} of {block_tokens}"
            + (" and a part of another" if needed > full else ""),
        )
