"""The simulated pool over HTTP: every agent of a pool on one loopback server, each under its own port."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import assert_never

from fastapi import FastAPI, Request, Response

from kvtune_api.codec import canonical, parse_json
from kvtune_api.errors import SpecError
from kvtune_api.wire import Counters, Push, Refusal, Report
from kvtune_operator.ports import Accepted, Refused, Unreachable
from tests.fakes.pool import Pool
from tests.fakes.servers import app_server


class HttpPool:
    """Serves a pool whose agents are named by the addresses they are served on."""

    def __init__(self, pool: Pool, now: Callable[[], float], token: str) -> None:
        self.pool = pool
        self.pushed = asyncio.Event()
        """Set whenever a push was answered with 200."""

        self._now = now
        self._token = token

    def app(self, name: str) -> FastAPI:
        """The application of one agent of the pool."""
        app = FastAPI()

        @app.get("/v1/report")
        async def report(at: float | None = None) -> Response:
            return self._response(*self.report(name, at))

        @app.put("/v1/config")
        async def config(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            return self._response(*self.push(name, given, await request.body()))

        @app.post("/v1/eviction/restore")
        async def restore(request: Request) -> Response:
            return self._response(*self.restore(name, request.headers.get("authorization", "")))

        return app

    def report(self, name: str, at: float | None) -> tuple[int, str]:
        """Status and body of what an agent answers to `GET /v1/report`, at a grid time or the newest."""
        found = self.pool.report(name, self._now())
        if isinstance(found, Unreachable):
            return 503, ""
        return 200, canonical(found if at is None else self._at(found, name, at))

    def push(self, name: str, authorization: str, body: bytes) -> tuple[int, str]:
        """Status and body of what an agent answers to `PUT /v1/config`."""
        if authorization != f"Bearer {self._token}":
            return 401, canonical(Refusal(reason="Unauthorized", message="wrong token"))
        try:
            push = parse_json(Push, body)
        except SpecError as error:
            return 422, canonical(Refusal(reason="Invalid", message=str(error)))
        match self.pool.push(name, push, self._now()):
            case Accepted():
                self.pushed.set()
                found = self.pool.report(name, self._now())
                assert isinstance(found, Report)
                return 200, canonical(found.running)
            case Refused(status=status, reason=reason, message=message):
                return status, canonical(Refusal(reason=reason, message=message))
            case Unreachable():
                return 503, ""
            case answer:
                assert_never(answer)

    def restore(self, name: str, authorization: str) -> tuple[int, str]:
        """Status and body of what an agent answers to `POST /v1/eviction/restore`."""
        if authorization != f"Bearer {self._token}":
            return 401, canonical(Refusal(reason="Unauthorized", message="wrong token"))
        answer = self.pool.restore(name)
        return self.report(name, None) if isinstance(answer, Accepted) else (503, "")

    def _at(self, report: Report, name: str, at: float) -> Report:
        found = self.pool.counters(name, at, self._now())
        if isinstance(found, Counters):
            return replace(report, counters=found)
        return replace(report, counters=None, missing=found.reason)

    def _response(self, status: int, body: str) -> Response:
        return Response(body, status_code=status, media_type="application/json" if body else None)


@contextlib.asynccontextmanager
async def serving(pool: HttpPool) -> AsyncIterator[dict[str, str]]:
    """Serve every agent; gives the address of each name."""
    async with contextlib.AsyncExitStack() as stack:
        names = pool.pool.names()
        yield {name: await stack.enter_async_context(app_server(pool.app(name))) for name in names}
