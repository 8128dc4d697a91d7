"""An agent over HTTP: take configurations, report, show metrics, and (replay engine only) take traffic.

Called by serve.py and, in process, by tests. Reads need no token; every write does. Unknown fields are
refused."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from kvtune_agent.agent import Agent
from kvtune_agent.apply import Refused
from kvtune_agent.bodies import (
    PUSH_BYTES_MAX,
    REPLAY_BYTES_MAX,
    Refuse,
    RefusedRequest,
    parsed,
    read_body,
    refusal,
)
from kvtune_agent.engines.batches import QueueFull, ReplayBatch, Replayed
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.lease import keep_beating
from kvtune_agent.lessons import keep_learned
from kvtune_agent.telemetry import registry_of
from kvtune_agent.tokens import TokenFile
from kvtune_api.codec import adapter, dump
from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.hints import Hint
from kvtune_api.knobs import EvictionPolicy
from kvtune_api.wire import GRID_SECONDS, Push, Refusal, Report, Running

log = logging.getLogger(__name__)

COMPONENT = "#/components/schemas/{model}"

REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "No bearer token, or a wrong one."},
    413: {"model": Refusal, "description": "The body is too large."},
    422: {
        "model": Refusal,
        "description": "A field is unknown, missing or out of its limits; nothing changed.",
    },
    503: {"model": Refusal, "description": "No token is configured, or the disk fails; nothing changed."},
}


def create_app(agent: Agent, tokens: TokenFile) -> FastAPI:
    """The HTTP application of one agent; its heartbeat runs while it is served."""

    @asynccontextmanager
    async def beating(_app: FastAPI) -> AsyncIterator[None]:
        tasks = (
            asyncio.create_task(keep_beating(agent, agent.clock)),
            asyncio.create_task(keep_learned(agent.lessons, agent.clock)),
        )
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    app = FastAPI(
        title="kvtune agent",
        summary="Configures the KV cache beside it, under leases, and reports what happened.",
        version=agent.engine.version,
        lifespan=beating,
    )
    _add_refusals(app)
    _add_config(app, agent, tokens)
    _add_eviction(app, agent, tokens)
    _add_report(app, agent)
    _add_health(app, agent)
    if isinstance(agent.engine, ReplayEngine):
        _add_replay(app, agent.engine, tokens)
    return app


def _add_config(app: FastAPI, agent: Agent, tokens: TokenFile) -> None:
    conflict: dict[int | str, dict[str, Any]] = {
        409: {"model": Refusal, "description": "The push is stale, or another policy's turn is on."}
    }

    @app.put(
        "/v1/config",
        summary="Run a configuration",
        description="A candidate runs until its lease ends, then the agent returns to the incumbent by "
        "itself; an incumbent stays, over restarts too. Repeating the newest push renews its lease.",
        responses={200: {"model": Running}, **REFUSALS, **conflict},
        openapi_extra=_body_of(Push),
    )
    async def put_config(
        request: Request, authorization: Annotated[str | None, Header()] = None
    ) -> JSONResponse:
        try:
            _authorize(tokens, authorization)
            push = parsed(Push, await read_body(request, limit_bytes=PUSH_BYTES_MAX))
            done = await agent.push(push)
            if isinstance(done, Refused):
                raise RefusedRequest(done.status, done.reason, done.message)
        except RefusedRequest as refused:
            agent.refused[str(refused.reason)] += 1
            raise
        return JSONResponse(dump(done))

    @app.get("/v1/config", summary="What the agent runs", responses={200: {"model": Running}})
    async def get_config() -> JSONResponse:
        return JSONResponse(dump(agent.running()))


def _add_eviction(app: FastAPI, agent: Agent, tokens: TokenFile) -> None:
    @app.post(
        "/v1/eviction/restore",
        summary="Run the eviction policy asked for again",
        description="After a fallback to LRU (`fallback` in the report); changes nothing where it runs.",
        responses={200: {"model": Report}, 401: REFUSALS[401], 503: REFUSALS[503]},
    )
    async def post_restore(authorization: Annotated[str | None, Header()] = None) -> JSONResponse:
        _authorize(tokens, authorization)
        return JSONResponse(dump(agent.restore_policy()))

    @app.get(
        "/v1/eviction/learned",
        summary="What the eviction policy has learned",
        description="Counts by class and age, with the version, the levels of the axes and the edges of the "
        "ages that they mean something for (`kvtune explain` shows them).",
        responses={404: {"model": Refusal, "description": "The policy that runs learns nothing."}},
    )
    async def get_learned() -> JSONResponse:
        learned = agent.engine.learned()
        if learned is None:
            policy = agent.running().config.eviction_policy or EvictionPolicy.LRU
            told = f"{policy} was asked for, and what runs learns nothing; ReuseAware does"
            raise RefusedRequest(404, Refuse.NOTHING_LEARNED, told)
        return JSONResponse(dict(learned))


def _add_report(app: FastAPI, agent: Agent) -> None:
    @app.get(
        "/v1/report",
        summary="All that a control plane asks of an agent",
        description="With `at`, the counters at that time of the engine's clock; `missing` says why there "
        "are none: `NotYet` (not final yet) or `BoundMissed` (older than what is kept).",
        responses={200: {"model": Report}, 400: {"model": Refusal, "description": "`at` is off the grid."}},
    )
    async def get_report(
        at: Annotated[
            float | None, Query(description=f"Engine seconds, a multiple of {GRID_SECONDS}.")
        ] = None,
    ) -> JSONResponse:
        if at is not None:
            _require_on_grid(at)
        return JSONResponse(dump(agent.report(at)))


def _add_health(app: FastAPI, agent: Agent) -> None:
    registry = registry_of(agent)

    @app.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
    async def get_metrics() -> Response:
        # Never as OpenMetrics: prometheus_client 0.26 then writes `_` for the `:` in the names of samples.
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    @app.get("/healthz", summary="Whether the process answers")
    async def get_health() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", summary="Whether leases are watched and configurations are taken")
    async def get_ready() -> JSONResponse:
        if agent.is_alive():
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "the heartbeat has stopped"}, status_code=503)


def _add_replay(app: FastAPI, engine: ReplayEngine, tokens: TokenFile) -> None:
    full: dict[int | str, dict[str, Any]] = {
        429: {"model": Refusal, "description": "Too many requests wait; repeat the batch later."}
    }

    @app.post(
        "/v1/replay",
        summary="Serve a batch of requests",
        description="Replay engine only. Answers when the batch is served. A batch repeated after a lost "
        "answer changes nothing.",
        responses={200: {"model": Replayed}, **REFUSALS, **full},
        openapi_extra=_body_of(ReplayBatch, Hint),
    )
    async def post_replay(
        request: Request, authorization: Annotated[str | None, Header()] = None
    ) -> JSONResponse:
        _authorize(tokens, authorization)
        batch = parsed(ReplayBatch, await read_body(request, limit_bytes=REPLAY_BYTES_MAX))
        try:
            done = await engine.replay(batch)
        except SpecError as error:
            raise RefusedRequest(422, Refuse.INVALID, str(error)) from error
        if isinstance(done, QueueFull):
            message = (
                f"requests: {done.pending} wait already, at most {done.limit} may; send this batch again"
            )
            raise RefusedRequest(429, Refuse.QUEUE_FULL, message, headers={"retry-after": "1"})
        return JSONResponse(dump(done))


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(RefusedRequest)
    async def refused(_request: Request, error: RefusedRequest) -> JSONResponse:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def bad_query(_request: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()[0]
        message = f"{found['loc'][-1]}: {str(found['input'])[:60]!r}: {found['msg']}"
        return refusal(RefusedRequest(400, Refuse.BAD_TIME, message))

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.url.path}: {error.detail}"
        reason = Refuse.NOT_FOUND if error.status_code in (404, 405) else Refuse.INVALID
        return refusal(RefusedRequest(error.status_code, reason, message, headers=error.headers))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, _error: ClientDisconnect) -> Response:
        """Nothing was changed and nobody hears this answer; its status is nginx's for the same."""
        log.debug("client left before its body was whole", extra={"path": request.url.path})
        return Response(status_code=499)


def _authorize(tokens: TokenFile, authorization: str | None) -> None:
    try:
        granted = tokens.grants(authorization)
    except Unavailable as error:
        raise RefusedRequest(503, Refuse.TOKEN_UNAVAILABLE, str(error)) from error
    if not granted:
        said = "a wrong" if authorization else "no"
        message = (
            f"Authorization: {said} bearer token; every write needs the token of this agent's token file"
        )
        raise RefusedRequest(401, Refuse.UNAUTHORIZED, message, headers={"www-authenticate": "Bearer"})


def _require_on_grid(at: float) -> None:
    if not math.isfinite(at):
        raise RefusedRequest(400, Refuse.BAD_TIME, f"at: {at} is not a finite number")
    if at % GRID_SECONDS:
        before = math.floor(at / GRID_SECONDS) * GRID_SECONDS
        near = f"nearest are {before} and {before + GRID_SECONDS}"
        message = f"at: {at!r} is not a multiple of {GRID_SECONDS}; {near}"
        raise RefusedRequest(400, Refuse.BAD_TIME, message)


def _body_of(cls: type, *own: type) -> dict[str, Any]:
    """The OpenAPI request body of a type; other answers describe its parts already, but for `own` ones."""
    schema = adapter(cls).json_schema(ref_template=COMPONENT)
    parts = schema.pop("$defs", {})
    inline = {COMPONENT.format(model=one.__name__): parts[one.__name__] for one in own}
    whole = _inlined(schema, inline)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": whole}}}}


def _inlined(node: Any, parts: Mapping[str, Any]) -> Any:
    """A JSON schema with parts in place of the references to them."""
    if isinstance(node, list):
        return [_inlined(item, parts) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("$ref") in parts:
        return parts[node["$ref"]]
    return {key: _inlined(value, parts) for key, value in node.items()}
