"""One bounded HTTP exchange with an agent: whole answer within the timeout and the size limit, or why not.

Redirects are not followed, compressed answers are refused (a small one may unpack to gigabytes), and no
header is ever logged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import httpx

from kvtune_operator.ports import Unreachable

T = TypeVar("T")

REPORT_BYTES = 1 << 20
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    status: int
    content_type: str
    body: bytes

    @property
    def shown(self) -> str:
        """The beginning of the body for a message."""
        text = " ".join(self.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
        return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


class Fetcher:
    """Exchange requests with many agents: `parallel` at once, each within `timeout_seconds` as a whole."""

    def __init__(
        self, client: httpx.AsyncClient, *, timeout_seconds: float = 2.0, parallel: int = 64
    ) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._parallel = parallel

    async def for_each(self, agents: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask every agent, a bounded number at once; answers in the order of `agents`."""
        gate = asyncio.Semaphore(self._parallel)

        async def one(agent: str) -> T:
            async with gate:
                return await ask(agent)

        unique = tuple(dict.fromkeys(agents))
        answers = await asyncio.gather(*(one(agent) for agent in unique))
        return dict(zip(unique, answers, strict=True))

    async def get(self, url: str, *, limit_bytes: int, accept: str) -> Answer | Unreachable:
        """GET an answer of any status."""
        return await self._exchange("GET", url, limit_bytes, {"Accept": accept}, None)

    async def put(
        self, url: str, body: bytes, *, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """PUT JSON and return an answer of any status."""
        content = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        return await self._exchange("PUT", url, limit_bytes, content, body)

    async def _exchange(
        self, method: str, url: str, limit_bytes: int, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | Unreachable:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._whole(method, url, limit_bytes, headers, body)
        except TimeoutError:
            return Unreachable(message=f"{method} {url}: no whole answer within {self._timeout_seconds:g} s")
        except httpx.HTTPError as error:
            return Unreachable(message=f"{method} {url}: {_cause(error)}")
        except httpx.InvalidURL as error:
            return Unreachable(message=f"{method} {url}: {error}")

    async def _whole(
        self, method: str, url: str, limit_bytes: int, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | Unreachable:
        sent = {**headers, "Accept-Encoding": "identity"}
        async with self._client.stream(
            method, url, headers=sent, content=body, follow_redirects=False
        ) as got:
            if got.headers.get("content-encoding", "identity") != "identity":
                return Unreachable(
                    message=f"{method} {url}: HTTP {got.status_code}, compressed answers are refused"
                )
            parts = bytearray()
            async for part in got.aiter_bytes():
                parts += part
                if len(parts) > limit_bytes:
                    message = f"{method} {url}: HTTP {got.status_code}, more than {limit_bytes} bytes"
                    return Unreachable(message=message)
            kind = got.headers.get("content-type", "").partition(";")[0].strip()
            return Answer(status=got.status_code, content_type=kind, body=bytes(parts))


def _cause(error: httpx.HTTPError) -> str:
    """What went wrong, in words also where the library gives none."""
    match error:
        case httpx.TimeoutException():
            return "no answer in time"
        case httpx.ConnectError():
            return f"cannot connect ({error})" if str(error) else "cannot connect"
        case httpx.RemoteProtocolError() | httpx.DecodingError():
            return f"not an HTTP answer ({error})"
    return f"{type(error).__name__} {error}".strip()
