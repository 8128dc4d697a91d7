"""One bounded HTTP exchange with an agent: whole answer within the timeout and the size limit, or why not.

Redirects are not followed, compressed answers are refused (a small one may unpack to gigabytes), no proxy is
taken from the environment, and no header is ever logged.
"""

import asyncio
import contextlib
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.fair_gate import FairGate
from kvtune_operator.ports import Unreachable

T = TypeVar("T")

REPORT_BYTES = 1 << 20
KEPT_SECONDS = 60.0
"""An idle connection is kept this long: longer than a tick."""

SHARED = 2
FLOOR_SHARE = 16
"""Each caller has one of so many parts of `parallel` in any case."""

KEPT_SILENT = 10_000
SETTLE_SECONDS = 0.05
"""In which agents that were silent are collected, to ask first whoever was asked longest ago."""

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


@dataclass(frozen=True, slots=True, eq=False)
class _Caller:
    """One call of `for_each`: who shares the gates with others."""

    gate: asyncio.Semaphore


_CALLER: ContextVar[_Caller | None] = ContextVar("caller", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Silent:
    """An agent that gave no answer in time when it was last asked."""

    message: str
    asked_at: float


class Fetcher:
    """Exchange requests with many agents: `parallel` at once, each within `timeout_seconds` as a whole.

    Callers that ask at the same time have `SHARED` times as many in all: with a thousand requests under way
    each turn of the loop takes so long that a lease is not renewed in time. Of these each has a share, and
    PUTs have slots of their own. Agents that were silent are asked again half as many at once, whoever was
    asked longest ago first; one that gets no slot within the timeout is still `Unreachable`, and the others
    do not wait for it.
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
        floor = max(1, parallel // FLOOR_SHARE)
        self._gets = FairGate(SHARED * parallel, floor=floor)
        self._puts = FairGate(parallel, floor=floor)
        self._probes = FairGate(max(1, parallel // 2), settle_seconds=SETTLE_SECONDS)
        self._silent: OrderedDict[str, _Silent] = OrderedDict()

    async def for_each(self, agents: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask every agent, a bounded number at once; answers in the order of `agents`."""
        caller = _Caller(asyncio.Semaphore(self._parallel))

        async def one(agent: str) -> T:
            _CALLER.set(caller)
            async with caller.gate:
                return await ask(agent)

        unique = tuple(dict.fromkeys(agents))
        answers = await asyncio.gather(*(one(agent) for agent in unique))
        return dict(zip(unique, answers, strict=True))

    async def get(self, url: str, *, limit_bytes: int, accept: str) -> Answer | Unreachable:
        """GET an answer of any status; raise `Unavailable` where nobody can be trusted."""
        headers = {"Accept": accept}
        whose, caller = url.partition("://")[2].partition("/")[0], _caller()
        silent = self._silent.get(whose)
        if silent is None:
            async with self._gets.slot(caller):
                return await self._noted(whose, url, limit_bytes, headers)
        async with _outside(caller):
            try:
                async with self._probes.slot(
                    caller, rank=silent.asked_at, within_seconds=self._timeout_seconds + 2 * SETTLE_SECONDS
                ):
                    return await self._noted(whose, url, limit_bytes, headers)
            except TimeoutError:
                return Unreachable(message=silent.message)

    async def put(
        self, url: str, body: bytes, *, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """PUT JSON and return an answer of any status; raise `Unavailable` where nobody can be trusted."""
        return await self._write("PUT", url, body, limit_bytes, headers)

    async def post(
        self, url: str, body: bytes, *, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """POST JSON, as `put` does."""
        return await self._write("POST", url, body, limit_bytes, headers)

    async def _write(
        self, method: str, url: str, body: bytes, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        content = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        async with self._puts.slot(_caller()):
            return await self._exchange(method, url, limit_bytes, content, body) or self._late(method, url)

    async def _noted(
        self, whose: str, url: str, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """The answer to a GET; who is silent is remembered."""
        answer = await self._exchange("GET", url, limit_bytes, headers, None)
        self._silent.pop(whose, None)
        if answer is not None:
            return answer
        late = self._late("GET", url)
        now = asyncio.get_running_loop().time()
        self._silent[whose] = _Silent(message=late.message, asked_at=now)
        while len(self._silent) > KEPT_SILENT:
            self._silent.popitem(last=False)
        return late

    def _late(self, method: str, url: str) -> Unreachable:
        return Unreachable(message=f"{method} {url}: no whole answer within {self._timeout_seconds:g} s")

    async def _exchange(
        self, method: str, url: str, limit_bytes: int, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | Unreachable | None:
        """An answer; None when there is no whole one in time."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._whole(method, url, limit_bytes, headers, body)
        except TimeoutError:
            return None
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


def _caller() -> _Caller:
    """Whose request this is; one that is made outside `for_each` is a caller of its own."""
    return _CALLER.get() or _Caller(asyncio.Semaphore(0))


@contextlib.asynccontextmanager
async def _outside(caller: _Caller) -> AsyncIterator[None]:
    """Leave the caller's own bound to its other agents meanwhile."""
    caller.gate.release()
    try:
        yield
    finally:
        await caller.gate.acquire()


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
