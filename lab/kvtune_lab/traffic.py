"""One request of a workload, whoever makes it: generator or trace."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvtune_api.hints import Hint


class Request(NamedTuple):
    """What a replay needs of one request (a tuple, because millions are made).

    `arrival_s` counts from the workload's start and never goes back. `blocks` are prefix-chained ids, head
    first, of full blocks or with a partial last one (see the source); `root` is the session's first block
    after what all share.
    """

    arrival_s: float
    session: int
    root: int
    blocks: list[int]
    prompt_tokens: int
    output_tokens: int
    hint: "Hint | None" = None
    """What its client tells of the session."""


def hastened(requests: Iterable[Request], factor: float) -> Iterator[Request]:
    """Let everything happen `factor` (> 0) times as fast: pauses between turns shrink, as do best TTLs.

    To keep requests per second as they are, generate at a rate divided by `factor`.
    """
    if not 0 < factor < float("inf"):
        raise ValueError(f"factor: {factor} is not a finite number greater than 0")
    return (
        request._replace(arrival_s=request.arrival_s / factor, hint=_hastened(request.hint, factor))
        for request in requests
    )


def _hastened(hint: "Hint | None", factor: float) -> "Hint | None":
    if hint is None or hint.expected_return_seconds is None:
        return hint
    return replace(hint, expected_return_seconds=hint.expected_return_seconds / factor)
