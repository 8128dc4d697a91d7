"""Read the bodies of requests, bounded in size and time, and say no in kvtune's words.

Called by app.py. Every answer that is not 2xx is a `Refusal`.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from kvtune_api.codec import dump, parse_json
from kvtune_api.errors import SpecError
from kvtune_api.wire import Refusal

T = TypeVar("T")

PUSH_BYTES_MAX = 64 * 1024
REPLAY_BYTES_MAX = 8 * 1024 * 1024
"""Reading it takes about 0.15 s, which is as long as other requests may wait."""

BODY_SECONDS = 10.0


class Refuse(StrEnum):
    """Machine reasons of refusals that are not about what an agent holds."""

    BAD_JSON = "BadJson"
    BAD_TIME = "BadTime"
    BODY_TOO_LARGE = "BodyTooLarge"
    BODY_TOO_SLOW = "BodyTooSlow"
    INVALID = "Invalid"
    NOTHING_LEARNED = "NothingLearned"
    NOT_FOUND = "NotFound"
    QUEUE_FULL = "QueueFull"
    TOKEN_UNAVAILABLE = "TokenUnavailable"
    UNAUTHORIZED = "Unauthorized"


class RefusedRequest(Exception):
    """Answer a request with a status and a `Refusal`."""

    def __init__(
        self, status: int, reason: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers


def refusal(refused: RefusedRequest) -> JSONResponse:
    """The answer to a refused request."""
    body = dump(Refusal(reason=str(refused.reason), message=refused.message))
    return JSONResponse(body, status_code=refused.status, headers=dict(refused.headers or {}))


async def read_body(request: Request, *, limit_bytes: int) -> bytes:
    """The body of a request; raises `RefusedRequest` when it is too large or comes too slowly."""
    too_large = RefusedRequest(
        413, Refuse.BODY_TOO_LARGE, f"body: more than {limit_bytes} bytes; send it in smaller parts"
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > limit_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit_bytes:
                    raise too_large
                parts.append(part)
    except TimeoutError as error:
        message = f"body: did not arrive within {BODY_SECONDS:g} s"
        raise RefusedRequest(408, Refuse.BODY_TOO_SLOW, message) from error
    return b"".join(parts)


def parsed(cls: type[T], body: bytes) -> T:
    """A body as a value; raises `RefusedRequest`: 400 for what is not JSON, 422 with every field path."""
    try:
        return parse_json(cls, body)
    except SpecError as error:
        cause = error.__cause__
        if isinstance(cause, ValidationError) and cause.errors()[0]["type"] == "json_invalid":
            reason = cause.errors(include_input=False)[0]["ctx"]["error"]
            raise RefusedRequest(400, Refuse.BAD_JSON, f"body: is not JSON: {reason}") from error
        raise RefusedRequest(422, Refuse.INVALID, _short(str(error))) from error


def _short(message: str) -> str:
    return message if len(message) <= 2000 else message[:2000] + " ..."
