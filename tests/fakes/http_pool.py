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
            found = self.pool.report(name, self._now())
            if isinstance(found, Unreachable):
                return Response(status_code=503)
            return self._json(found if at is None else self._at(found, name, at))

        @app.put("/v1/config")
        async def config(request: Request) -> Response:
            if request.headers.get("authorization") != f"Bearer {self._token}":
                return self._json(Refusal(reason="Unauthorized", message="wrong token"), 401)
            try:
                push = parse_json(Push, await request.body())
            except SpecError as error:
                return self._json(Refusal(reason="Invalid", message=str(error)), 422)
            match self.pool.push(name, push, self._now()):
                case Accepted():
                    self.pushed.set()
                    found = self.pool.report(name, self._now())
                    assert isinstance(found, Report)
                    return self._json(found.running)
                case Refused(status=status, reason=reason, message=message):
                    return self._json(Refusal(reason=reason, message=message), status)
                case Unreachable():
                    return Response(status_code=503)
                case answer:
                    assert_never(answer)

        return app

    def _at(self, report: Report, name: str, at: float) -> Report:
        found = self.pool.counters(name, at, self._now())
        if isinstance(found, Counters):
            return replace(report, counters=found)
        return replace(report, counters=None, missing=found.reason)

    def _json(self, value: object, status: int = 200) -> Response:
        return Response(canonical(value), status_code=status, media_type="application/json")


@contextlib.asynccontextmanager
async def serving(pool: HttpPool) -> AsyncIterator[dict[str, str]]:
    """Serve every agent; gives the address of each name."""
    async with contextlib.AsyncExitStack() as stack:
        names = pool.pool.names()
        yield {name: await stack.enter_async_context(app_server(pool.app(name))) for name in names}
