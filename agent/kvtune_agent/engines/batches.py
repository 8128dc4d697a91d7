"""Batches of requests for a replay: the body of `POST /v1/replay` and its checks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from kvtune_api.codec import frozen
from kvtune_api.errors import Problem, SpecError
from kvtune_api.hints import Hint

TOKENS_MAX = 100_000_000
SLICE_BLOCKS = 4096
"""About 4 ms of serving at the 1 us a block that was measured."""

BLOCKS_MAX = 65_536
"""Blocks of one request (8 M tokens): it is served in one go, so it bounds how long a lease check waits."""


class _MayBeLeftOut:
    """Of the last place of a tuple: without it the value is None."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), default=None)


class _OneLess:
    """Of a tuple whose last place may be left out: says so in the JSON schema."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(schema)
        return {**found, "minItems": found["minItems"] - 1}


ReplayRequest = Annotated[
    tuple[
        Annotated[float, Field(ge=0)],
        Annotated[int, Field(ge=0)],
        Annotated[int, Field(ge=1, le=TOKENS_MAX)],
        Annotated[int, Field(ge=0, le=TOKENS_MAX)],
        Annotated[list[int], Field(max_length=BLOCKS_MAX)],
        Annotated[Hint | None, _MayBeLeftOut()],
    ],
    _OneLess(),
]
"""Arrival (engine seconds), session root, prompt tokens, output tokens, block ids, head first; and, where the
client gave one, its hint."""


@frozen
class ReplayBatch:
    """All requests after the last batch, in order of arrival, up to `until`.

    Of several batches that share one span only the last carries the span's end, the others their last
    arrival."""

    until: Annotated[float, Field(ge=0)]
    """No request before or at this engine second is still to come: counters up to it are final."""

    requests: list[ReplayRequest]
    """[arrival seconds, session root, prompt tokens, output tokens, [block ids]] of each request, and a hint
    such as {"sessionEnded": true} as sixth where there is one."""


@frozen
class Replayed:
    """What became of a batch: the answer of `POST /v1/replay`."""

    served: int
    repeated: int
    """Ignored: at or before the `until` of an earlier batch."""

    late: int
    """Ignored: no batch came for a while, and the counters of that time were already final."""

    errors: int
    """Refused by the engine: fewer prompt tokens than blocks."""

    watermark: float
    """Counters up to this engine second are final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFull:
    """Too many requests wait; send the same batch again later."""

    pending: int
    limit: int


def check_batch(batch: ReplayBatch, *, latest_until: float) -> None:
    """Raise `SpecError` for a batch that is out of order or ends too far ahead of the clock."""
    last = float("-inf")
    for i, request in enumerate(batch.requests):
        if request[0] < last:
            raise SpecError(
                Problem(f"requests[{i}][0]", f"{request[0]} is before {last}, the arrival before it")
            )
        last = request[0]
    if last > batch.until:
        raise SpecError(Problem("until", f"{batch.until} is before the last arrival, {last}"))
    if batch.until > latest_until:
        raise SpecError(
            Problem(
                "until", f"{batch.until} is too far ahead of the engine's clock, at most {latest_until:.0f}"
            )
        )


def slices(requests: Sequence[ReplayRequest]) -> Iterator[Sequence[ReplayRequest]]:
    """Cut requests into runs of about `SLICE_BLOCKS` blocks (a request counts as at least 16)."""
    start, blocks = 0, 0
    for i, request in enumerate(requests):
        blocks += max(16, len(request[4]))
        if blocks >= SLICE_BLOCKS:
            yield requests[start : i + 1]
            start, blocks = i + 1, 0
    if start < len(requests):
        yield requests[start:]
