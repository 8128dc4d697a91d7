"""Options that commands of the laboratory share: how they are written, and one line where one is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.lab_traces import Trace
from kvtune_cli.output import one_line, tell
from kvtune_lab.model_shape import MOST_TOKEN_BYTES, parse_shape
from kvtune_lab.setups import MOST_ASKED, Policy
from kvtune_lab.sizes import SizeError, parse_size, size_in_blocks

T = TypeVar("T")

NONE = "none"
"""How a TTL or a ratio is written that is off."""

JsonTarget = Annotated[
    Path | None, typer.Option("--json", help="Write JSON to a file, or to stdout for -.", metavar="FILE|-")
]
BytesPerToken = Annotated[
    int | None, typer.Option("--bytes-per-token", help="KV bytes of a token, for sizes in bytes.")
]
ModelShapeText = Annotated[
    str | None,
    typer.Option(
        "--model-shape",
        help="Instead: a model, such as llama-3.1-8b or layers=32,kv_heads=8,head_dim=128,dtype=bf16.",
    ),
]


def wrong(option: str, problem: object) -> NoReturn:
    """End the command, because an option is wrong: one line, exit code USAGE."""
    tell(f"kvtune: {option}: {one_line(str(problem))}")
    raise typer.Exit(ExitCode.USAGE)


def listed(option: str, text: str, read: Callable[[str], T]) -> list[T]:
    """Read comma-separated values, each once; ends the command where one is wrong or none is there."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        wrong(option, f"{text!r} holds no value")
    return list(dict.fromkeys(chosen(option, part, read) for part in parts))


def chosen(option: str, text: str, read: Callable[[str], T]) -> T:
    """Read one value; ends the command where it is wrong."""
    try:
        return read(text)
    except ValueError as error:
        wrong(option, error)


def policy_of(text: str) -> Policy:
    """Read the name of a policy, in capitals or not; raises ValueError with all names."""
    by_name = {policy.lower(): policy for policy in Policy}
    if text.lower() not in by_name:
        raise ValueError(f"{text!r} is not one of {', '.join(Policy)}")
    return by_name[text.lower()]


def ttl_of(text: str) -> float | None:
    """Read a TTL such as 90s; `none` is off. Raises ValueError for 0."""
    if text.lower() == NONE:
        return None
    from kvtune_api.units import Duration

    seconds = Duration.check(text).seconds
    if seconds == 0:
        raise ValueError(f"{text} is not greater than 0")
    return seconds


def ratio_of(text: str) -> float | None:
    """Read an eviction ratio; `none` is off, blocks leave one by one. Raises ValueError outside (0, 1]."""
    if text.lower() == NONE:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a number within (0, 1], nor none") from error
    if not 0 < value <= 1:
        raise ValueError(f"{text} is not within (0, 1]")
    return value


def threshold_of(text: str) -> int:
    """Read a store threshold; raises ValueError outside its limits."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_ASKED):
        raise ValueError(f"{text!r} is not a whole number from 1 to {MOST_ASKED}")
    return int(text)


def bytes_of_a_token(bytes_per_token: int | None, model_shape: str | None) -> int | None:
    """The KV bytes of a token by either option; None where neither is given."""
    if bytes_per_token is not None and model_shape is not None:
        wrong("--bytes-per-token", "give this or --model-shape, not both")
    if model_shape is not None:
        return chosen("--model-shape", model_shape, parse_shape).bytes_per_token
    if bytes_per_token is not None and bytes_per_token < 1:
        wrong("--bytes-per-token", f"{bytes_per_token} is less than 1")
    if bytes_per_token is not None and bytes_per_token > MOST_TOKEN_BYTES:
        wrong("--bytes-per-token", f"{str(bytes_per_token)[:24]} is above {MOST_TOKEN_BYTES:,}")
    return bytes_per_token


def capacities(option: str, texts: Sequence[str], trace: Trace, bytes_per_token: int | None) -> list[int]:
    """Sizes in blocks, each once; says in one line which of them are above the trace."""
    distinct = trace.distinct_blocks
    block_bytes = None if bytes_per_token is None else bytes_per_token * trace.block_tokens
    try:
        blocks = [
            size_in_blocks(parse_size(text), distinct_blocks=distinct, bytes_per_block=block_bytes)
            for text in texts
        ]
    except SizeError as error:
        wrong(option, error)
    above = [text.strip() for text, count in zip(texts, blocks, strict=True) if count > distinct]
    if above:
        tell(
            f"note: {option} {', '.join(above)}: more than the {distinct:,} distinct blocks of the trace: "
            "nothing leaves for want of room"
        )
    return list(dict.fromkeys(blocks))
