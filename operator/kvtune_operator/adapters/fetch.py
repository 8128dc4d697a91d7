"""One bounded HTTP exchange with an agent: whole answer within the timeout and the size limit, or why not.

Redirects are not followed, compressed answers are refused (a small one may unpack to gigabytes), no proxy is
taken from the environment, and no header is ever logged.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from kvtune_api.errors import Unavailable
from kvtune_operator.ports import Unreachable

T = TypeVar("T")

REPORT_BYTES = 1 << 20
KEPT_SECONDS = 60.0
"""An idle connection is kept this long: longer than a tick."""

SHARED = 2
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whom to believe over https."""

    context: ssl.SSLContext | None = None
    """None: the system's authorities."""

    server_name: str | None = None
    """Name that the certificate must carry; None: the host of the address."""


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Trust the authorities of a file beside the system's own; raise `Unavailable` naming the file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Unavailable(f"{ca_file}: {error}") from error
    return context


class Fetcher:
    """Exchange requests with many agents: `parallel` at once, each within `timeout_seconds` as a whole.

    Callers that ask at the same time have `SHARED` times as many in all, however many they are: with a
    thousand requests under way each turn of the loop takes so long that a lease is not renewed in time.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        timeout_seconds: float = 2.0,
        parallel: int = 64,
        trust: Callable[[], Trust] = Trust,
    ) -> None:
        self._session = session
        self._timeout_seconds = timeout_seconds
        self._parallel = parallel
        self._trust = trust
        self._shared = asyncio.Semaphore(SHARED * parallel)

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
        """GET an answer of any status; raise `Unavailable` where nobody can be trusted."""
        return await self._exchange("GET", url, limit_bytes, {"Accept": accept}, None)

    async def put(
        self, url: str, body: bytes, *, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """PUT JSON and return an answer of any status; raise `Unavailable` where nobody can be trusted."""
        content = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        return await self._exchange("PUT", url, limit_bytes, content, body)

    async def _exchange(
        self, method: str, url: str, limit_bytes: int, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | Unreachable:
        try:
            async with self._shared, asyncio.timeout(self._timeout_seconds):
                return await self._whole(method, url, limit_bytes, headers, body)
        except TimeoutError:
            return Unreachable(message=f"{method} {url}: no whole answer within {self._timeout_seconds:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unreachable(message=f"{method} {url}: {_cause(error)}")

    async def _whole(
        self, method: str, url: str, limit_bytes: int, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | Unreachable:
        trust = self._trust()
        async with self._session.request(
            method,
            url,
            headers=headers,
            data=body,
            allow_redirects=False,
            ssl=trust.context or True,
            server_hostname=trust.server_name,
        ) as got:
            if got.headers.get("Content-Encoding", "identity") != "identity":
                return Unreachable(
                    message=f"{method} {url}: HTTP {got.status}, compressed answers are refused"
                )
            parts = bytearray()
            async for part in got.content.iter_any():
                parts += part
                if len(parts) > limit_bytes:
                    message = f"{method} {url}: HTTP {got.status}, more than {limit_bytes} bytes"
                    return Unreachable(message=message)
            kind = got.headers.get("Content-Type", "").partition(";")[0].strip()
            return Answer(status=got.status, content_type=kind, body=bytes(parts))


@contextlib.asynccontextmanager
async def fetching(
    *, timeout_seconds: float = 2.0, parallel: int = 64, trust: Callable[[], Trust] = Trust
) -> AsyncIterator[Fetcher]:
    """Open a fetcher with one kept connection per agent; how many requests run at once is `parallel`."""
    async with session_of_agents() as session:
        yield Fetcher(session, timeout_seconds=timeout_seconds, parallel=parallel, trust=trust)


def session_of_agents() -> aiohttp.ClientSession:
    """Connections as agents need them: many kept ones, no cookies, nothing from the environment."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        skip_auto_headers=("User-Agent",),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        trust_env=False,
    )


def _cause(error: Exception) -> str:
    """What went wrong, in words also where the library gives none."""
    match error:
        case (
            aiohttp.ClientConnectorCertificateError(certificate_error=why)
            | aiohttp.ClientConnectorSSLError(os_error=why)
        ):
            return f"the certificate is not trusted ({why})"
        case aiohttp.ClientConnectorError(os_error=why):
            return f"cannot connect ({why.strerror or why})"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "the connection was closed without an answer"
        case aiohttp.ClientPayloadError():
            return "the connection was closed within the answer"
        case aiohttp.ClientResponseError(message=why):
            return f"not an HTTP answer ({' '.join(why.split())[:_SHOWN]})"
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return "not an address"
    return f"{type(error).__name__} {error}".strip()
