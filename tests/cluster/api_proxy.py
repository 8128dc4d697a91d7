"""A proxy before the API server that understands its calls: answers in its place, waits, swallows events.

It shows the API server's own certificate, so that clients need know nothing of it. In a thread and an event
loop of its own; faults are switched from the test's thread.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from kvtune_operator.clock import WallClock
from tools.controlplane.access import Access

HOP = frozenset(
    {"connection", "transfer-encoding", "content-length", "content-encoding", "keep-alive", "host"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a client."""

    at: float
    """Monotonic seconds."""

    method: str
    path: str
    watch: bool
    agent: str
    """The client's User-Agent: kopf and the operator's own client differ by it."""

    @property
    def is_lease(self) -> bool:
        """Whether it is about a Lease."""
        return "/leases" in self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to a call instead of, or beside, being passed on."""

    status: int = 0
    """Answer with this; 0: pass it on."""

    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    silent: bool = False
    """Answer when the rule has gone, as a server does that was frozen for a while."""

    swallow: bool = False
    """Of a watch: its answer begins, and no event ever comes."""

    event: int = 0
    """Of a watch: its only event is an error of this code."""


Rule = Callable[[Call], Fault | None]


class ApiProxy:
    """Passes calls on, except for those that the rule of the moment says something else of."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._clock = WallClock()
        self.calls: list[Call] = []
        self.rule: Rule | None = None
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._watching: set[asyncio.Transport] = set()
        self._changed = asyncio.Event()
        """Replaced and set when the rule goes."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    @contextmanager
    def faulty(self, rule: Rule) -> Iterator[list[Call]]:
        """Apply a rule; gives the calls since then."""
        calls = self.calls = []
        self.rule = rule
        try:
            yield calls
        finally:
            self.rule = None
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._thaw)

    @contextmanager
    def serving(self) -> Iterator["ApiProxy"]:
        """Serve in a thread for as long as this is open."""
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="api-proxy", daemon=True)
        thread.start()
        assert self._ready.wait(30), "the proxy starts"
        try:
            yield self
        finally:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(30)

    def cut(self) -> None:
        """Cut every watch, without a farewell."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for transport in tuple(self._watching):
            transport.abort()

    def _thaw(self) -> None:
        """Let calls go on that were held up."""
        held, self._changed = self._changed, asyncio.Event()
        held.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        certificate = self._access.ca_file
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        trust = ssl.create_default_context(cafile=str(certificate))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, trust_env=False
        ) as session:
            app = web.Application(client_max_size=1 << 26)

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(request, session)

            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stop.wait()
            self._thaw()
            await runner.cleanup()

    async def _handle(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        call = Call(
            at=self._clock.monotonic(),
            method=request.method,
            path=request.path,
            watch=request.query.get("watch") in ("1", "true"),
            agent=request.headers.get("User-Agent", ""),
        )
        self.calls.append(call)
        rule = self.rule
        fault = (rule(call) if rule else None) or Fault()
        if fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)
        if fault.silent:
            await self._changed.wait()
        if fault.status:
            return web.json_response(_status(fault.status), status=fault.status, headers=fault.headers)
        if fault.event:
            line = {"type": "ERROR", "object": _status(fault.event)}
            return web.json_response(line)
        transport = request.transport
        if not call.watch or transport is None:
            return await self._passed(request, session, swallow=fault.swallow)
        self._watching.add(transport)
        try:
            return await self._passed(request, session, swallow=fault.swallow)
        finally:
            self._watching.discard(transport)

    async def _passed(
        self, request: web.Request, session: aiohttp.ClientSession, *, swallow: bool
    ) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        url = f"{self._access.url}{request.raw_path}"
        timeout = aiohttp.ClientTimeout(total=None)
        body = await request.read() or None  # a GET with a body, however empty, would be given a type
        async with session.request(
            request.method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False
        ) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if swallow:
                await self._stop.wait()
            async for part in answer.content.iter_any():
                await response.write(part)
            await response.write_eof()
            return response


def _status(code: int) -> dict[str, Any]:
    reasons = {401: "Unauthorized", 403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests"}
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reasons.get(code, "InternalError"),
        "message": f"made up by a test: {code}",
    }


def densest(calls: Sequence[Call], seconds: float) -> int:
    """The most calls within any span of so many seconds."""
    times = sorted(call.at for call in calls)
    return max((sum(1 for at in times if start <= at < start + seconds) for start in times), default=0)
