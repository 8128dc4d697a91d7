"""Ask a running agent what its eviction policy has learned, for `kvtune explain`, bounded in time and size.

An answer is not believed: whatever is wrong with it ends the command in one line.
"""

import asyncio
import json
from typing import TYPE_CHECKING, NoReturn

from kvtune_api.errors import SpecError, Unavailable
from kvtune_cli.lab_options import wrong

if TYPE_CHECKING:
    import httpx

    from kvtune_lab.explain.learned import Learned

ANSWER_SECONDS = 10.0
ANSWER_BYTES_MAX = 32 * 2**20
"""More than all classes of ReuseAware take: some 4 MB."""


def learned_by_agent(
    address: str, *, seconds: float = ANSWER_SECONDS, bytes_max: int = ANSWER_BYTES_MAX
) -> "Learned":
    """What the policy of an agent has learned; ends the command where it tells of nothing.

    Raises `Unavailable` where no agent answers in time.
    """
    import httpx

    from kvtune_lab.explain.learned import learned_from

    try:
        status, body = asyncio.run(_answer(address, seconds, bytes_max))
    except TimeoutError as error:
        raise Unavailable(f"{address}: no whole answer in {seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"{address}: {type(error).__name__} {error}".rstrip()) from error
    if status != httpx.codes.OK:
        refused = _message(body) if status == httpx.codes.NOT_FOUND else None
        if refused is not None:
            wrong(address, refused)
        raise Unavailable(f"{address}: answered with status {status}")
    try:
        return learned_from(json.loads(body))
    except RecursionError:
        _not_learned(address, "it is nested too deeply")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        _not_learned(address, str(error)[:200])


def _not_learned(address: str, why: str) -> NoReturn:
    wrong(address, f"the answer is not what a policy of this version has learned: {why}")


def _message(body: bytes) -> str | None:
    """What an agent's refusal says; None: it is not an agent's."""
    from kvtune_api.codec import parse_json
    from kvtune_api.wire import Refusal

    try:
        return parse_json(Refusal, body).message
    except SpecError:
        return None


async def _answer(address: str, seconds: float, bytes_max: int) -> tuple[int, bytes]:
    """Status and body of the agent's answer, all of it within `seconds`."""
    import httpx

    url = f"{address.rstrip('/')}/v1/eviction/learned"
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(timeout=None, trust_env=False) as client,
        client.stream("GET", url) as answer,
    ):
        return answer.status_code, await _body(answer, address, bytes_max)


async def _body(answer: "httpx.Response", address: str, bytes_max: int) -> bytes:
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > bytes_max:
            wrong(address, f"the answer is longer than {bytes_max} bytes")
    return bytes(body)
