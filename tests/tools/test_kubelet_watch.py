"""The stand-in's watch, against a server that ends it in every way that real ones do."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tools.kubelet_standin.api import Access, Api, ApiError

ADDED = {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "7"}}}
EXPIRED = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}


@asynccontextmanager
async def server(*events: object, status: int = 200, cut: bool = False) -> AsyncIterator[Api]:
    """An API whose watch gives these events, in pieces of 10 bytes, and then ends or is cut off."""

    async def watch(request: web.Request) -> web.StreamResponse:
        assert request.query["resourceVersion"] == "5"
        answer = web.StreamResponse(status=status)
        await answer.prepare(request)
        text = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        for start in range(0, len(text), 10):
            await answer.write(text[start : start + 10])
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return answer

    application = web.Application()
    application.router.add_get("/pods", watch)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with Api(Access(url=f"http://127.0.0.1:{port}", ca=None, token=None)) as api:
            yield api
    finally:
        await runner.cleanup()


async def watched(api: Api) -> Sequence[str]:
    async with asyncio.timeout(30):
        return [kind async for kind, _ in api.watch("/pods", "5")]


async def test_events_arrive_whole_however_they_are_cut_up() -> None:
    async with server(ADDED, ADDED) as api:
        assert await watched(api) == ["ADDED", "ADDED"]


async def test_an_expired_version_is_told_by_its_code() -> None:
    async with server(ADDED, EXPIRED) as api:
        with pytest.raises(ApiError, match="too old resource version") as caught:
            await watched(api)
    assert caught.value.status == 410


async def test_a_refused_watch_is_told_by_its_code() -> None:
    async with server(status=403) as api:
        with pytest.raises(ApiError) as caught:
            await watched(api)
    assert caught.value.status == 403


async def test_a_connection_that_is_cut_is_an_error_and_no_end() -> None:
    async with server(ADDED, cut=True) as api:
        with pytest.raises(ApiError) as caught:
            await watched(api)
    assert caught.value.status == 0


async def test_a_server_that_is_gone_is_an_error() -> None:
    async with Api(Access(url="http://127.0.0.1:1", ca=None, token=None)) as api:
        with pytest.raises(ApiError) as caught:
            await watched(api)
        with pytest.raises(ApiError, match="GET /pods"):
            await api.get("/pods")
    assert caught.value.status == 0
