"""Answers of an API server: read whole or line by line, bounded, and as JSON objects."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.kube_errors import Deed, failure

Json = dict[str, Any]

ANSWER_BYTES = 64 << 20
"""More than any page that we ask for; etcd holds at most 1.5 MB an object."""


async def whole(what: Deed, answer: aiohttp.ClientResponse) -> bytes:
    """The whole body; raise `Unavailable` beyond `ANSWER_BYTES`."""
    parts = bytearray()
    async for part in answer.content.iter_any():
        parts += part
        if len(parts) > ANSWER_BYTES:
            raise Unavailable(f"{what}: HTTP {answer.status}, more than {ANSWER_BYTES} bytes")
    return bytes(parts)


async def lines(what: Deed, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines of an answer that goes on."""
    held = bytearray()
    async for part in answer.content.iter_any():
        *complete, rest = part.split(b"\n")
        for line in complete:
            yield bytes(held) + line
            held.clear()
        held += rest
        if len(held) > ANSWER_BYTES:
            raise Unavailable(f"{what}: a change of more than {ANSWER_BYTES} bytes")


def change(what: Deed, line: bytes) -> tuple[str, Json]:
    """One change of a watch; raise the error that it tells of (`Gone` among them)."""
    told = json_object(what, line)
    kind, seen = told.get("type"), told.get("object")
    if not isinstance(kind, str) or not isinstance(seen, dict):
        raise Unavailable(f"{what}: the answer is no change of an object")
    if kind == "ERROR":
        raise failure(what, int(seen.get("code") or 500), json.dumps(seen).encode())
    return kind, seen


def json_object(what: Deed, text: bytes) -> Json:
    """A JSON object; raise `Unavailable` when it is something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"{what}: the answer is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unavailable(f"{what}: the answer is no JSON object")
    return found
