"""Sizes as a person writes them: blocks, bytes, or a share of a trace's distinct blocks.

Called by the commands of the laboratory. `18279` is blocks, `64GiB` (also `64Gi`, `64GB`) bytes, `10%` a
share of the distinct blocks.

Errors: SizeError (a ValueError) says what was written and what was expected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z%]*)")
_LARGEST_BLOCKS = 2**31 - 1
"""Block numbers are 32 bits wide."""

_UNITS: Mapping[str, int] = MappingProxyType(
    {
        "B": 1,
        **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
        **{f"{letter}i{b}": 1024**power for power, letter in enumerate("KMGTP", 1) for b in ("", "B")},
        "KB": 1000,
    }
)


class SizeError(ValueError):
    """Tell the user what is wrong with a size."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A number of blocks."""

    count: int


@dataclass(frozen=True, slots=True)
class Bytes:
    """A number of bytes."""

    count: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a trace's distinct blocks; 1 is all of them."""

    ratio: float


Size = Blocks | Bytes | Share


def parse_size(text: str) -> Size:
    """Read one size; raises SizeError for another form, for nothing and for more than 2^31 - 1 blocks."""
    written = text.strip()
    match = _SIZE.fullmatch(written)
    if match is None or (match[2] not in ("", "%") and match[2] not in _UNITS):
        raise SizeError(f"{written!r} is not a size such as 18279 (blocks), 64GiB or 10%")
    number, unit = match.groups()
    if float(number) == 0:
        raise SizeError(f"{written} is less than 1 block")
    if unit == "%":
        return Share(float(number) / 100)
    if unit:
        return Bytes(round(float(number) * _UNITS[unit]))
    if "." in number or int(number) > _LARGEST_BLOCKS:
        raise SizeError(f"{written} is not a whole number of blocks of at most {_LARGEST_BLOCKS:,}")
    return Blocks(int(number))


def parse_bytes(text: str) -> int:
    """Read a number of bytes such as 64GiB; raises SizeError for another form and for nothing."""
    size = parse_size(text)
    if not isinstance(size, Bytes):
        raise SizeError(f"{text.strip()!r} is not a number of bytes such as 64GiB")
    return size.count


def size_in_blocks(size: Size, *, distinct_blocks: int, bytes_per_block: int | None) -> int:
    """Work out the blocks of a size, at least 1 for a share.

    Raises SizeError for bytes that hold no block, and for bytes where the bytes of a block are not known.
    """
    match size:
        case Blocks(count):
            return count
        case Share(ratio):
            return min(_LARGEST_BLOCKS, max(1, round(ratio * distinct_blocks)))
        case Bytes(count):
            if bytes_per_block is None:
                raise SizeError(f"{in_bytes(count)} needs the bytes of a token: give a model's shape")
            if count < bytes_per_block:
                raise SizeError(f"{in_bytes(count)} holds no block of {in_bytes(bytes_per_block)}")
            return min(_LARGEST_BLOCKS, count // bytes_per_block)
    assert_never(size)


def in_bytes(count: float) -> str:
    """Write a number of bytes for a person, in the largest binary unit that it reaches."""
    for power, letter in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if count >= 1024**power:
            return f"{count / 1024**power:.4g} {letter}iB"
    return f"{count:.0f} B"
