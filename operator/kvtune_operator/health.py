"""The control plane's own HTTP side: /healthz, /readyz, /metrics and /v1/status. Read-only, no decisions."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp

from kvtune_api.codec import dump
from kvtune_api.errors import Unavailable
from kvtune_operator.observed import Pulse
from kvtune_operator.telemetry import Telemetry


class Vital(Protocol):
    """What the endpoint reads."""

    @property
    def pulse(self) -> Pulse:
        """What was last seen."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """The metrics."""
        ...

    @property
    def alive(self) -> bool:
        """Whether the process works, or waits as it should."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it has begun."""
        ...

    def details(self) -> dict[str, Any]:
        """What both probes answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The vitals of a control plane of one policy."""

    pulse: Pulse
    telemetry: Telemetry
    monotonic: Callable[[], float]
    stuck_after_seconds: float

    @property
    def age_seconds(self) -> float:
        """Wall seconds since the last step ended (since the start, before the first)."""
        last = self.pulse.last_step
        return self.monotonic() - (self.pulse.started if last is None else last)

    @property
    def alive(self) -> bool:
        """Whether steps come as they should."""
        return self.age_seconds <= self.stuck_after_seconds

    @property
    def ready(self) -> bool:
        """Whether a step has ended."""
        return self.alive and self.pulse.last_step is not None

    def details(self) -> dict[str, Any]:
        """When the last step ended."""
        return {
            "lastStepSecondsAgo": round(self.age_seconds, 3),
            "stuckAfterSeconds": self.stuck_after_seconds,
            "stepped": self.pulse.last_step is not None,
        }


def create_app(vitals: Vital) -> FastAPI:
    """The application."""
    app = FastAPI(title="kvtune control plane", docs_url=None, redoc_url=None)

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return _answer(vitals, well=vitals.alive)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        return _answer(vitals, well=vitals.ready)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(vitals.telemetry.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/status")
    async def status() -> JSONResponse:
        return JSONResponse(_status(vitals.pulse))

    return app


def _answer(vitals: Vital, *, well: bool) -> JSONResponse:
    return JSONResponse(vitals.details(), status_code=200 if well else 503)


def _status(pulse: Pulse) -> dict[str, Any]:
    return {
        "policies": [dump(policy) for _, policy in sorted(pulse.policies.items())],
        "experiments": [dump(experiment) for _, experiment in sorted(pulse.experiments.items())],
    }


class _Server(uvicorn.Server):
    """A server that leaves signals to the process's root."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def served(app: ASGIApp, host: str, port: int) -> AsyncIterator[str]:
    """Serve in this loop; gives the address. Raises `Unavailable` when the port cannot be had."""
    sock = _bound(host, port)
    host, port = sock.getsockname()[:2]
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
        sock.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise Unavailable(f"health endpoint {host}:{port}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise Unavailable(f"health endpoint {host}:{port}: {error.strerror or error}") from error
    return sock
