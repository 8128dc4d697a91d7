"""Real servers on loopback for tests of adapters: whatever bytes a test wants, or an application."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import ASGIApp

from kvtune_operator.health import served

GRACE_SECONDS = 2.0
"""For connections that a test has left, until they are cancelled."""

Say = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Given the request line, write an answer."""

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answer one connection."""

Hear = Callable[[dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Given the headers (lower case) and the body, a status and a JSON body."""


@contextlib.asynccontextmanager
async def raw_server(say: Say) -> AsyncIterator[str]:
    """Serve raw bytes; gives the address. Each connection gets one answer and is closed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await say(head.split(b"\r\n")[0].decode(), writer)

    async with _serving(handle) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def _serving(handle: Handle, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections; gives the port. At the end none is open: what still runs is cancelled."""
    handling: set[asyncio.Task[None]] = set()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handle(reader, writer)
                await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(once, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if handling:
            _, late = await asyncio.wait(handling, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*handling)


@contextlib.asynccontextmanager
async def answering(
    body: bytes, *, status: int = 200, content_type: str = "application/json", extra: str = ""
) -> AsyncIterator[str]:
    """Serve one answer to every request."""

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}{extra}Connection: close\r\n\r\n".encode() + body)

    async with raw_server(say) as address:
        yield address


@contextlib.asynccontextmanager
async def hearing(hear: Hear, *, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve what `hear` answers, over https with a context; gives the address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        head = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        status, body = await hear(head, await reader.readexactly(int(head.get("content-length", "0"))))
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\n{kind}Connection: close\r\n\r\n".encode() + body)

    scheme = "http" if context is None else "https"
    async with _serving(handle, context) as port:
        yield f"{scheme}://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def stuck() -> AsyncIterator[str]:
    """Take requests and never answer."""
    never = asyncio.Event()

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        await never.wait()

    async with raw_server(say) as address:
        try:
            yield address
        finally:
            never.set()


@contextlib.asynccontextmanager
async def dripping() -> AsyncIterator[str]:
    """Begin an answer at once and never end it, a byte at a time."""
    ended = asyncio.Event()

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        while not ended.is_set():
            writer.write(b" ")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.01)

    async with raw_server(say) as address:
        try:
            yield address
        finally:
            ended.set()


@contextlib.asynccontextmanager
async def app_server(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application without its lifespan; gives the address."""
    async with served(app, "127.0.0.1", 0) as address:
        yield address


def refusal(reason: str, message: str = "because") -> bytes:
    """The body of a 4xx answer."""
    return json.dumps({"reason": reason, "message": message}).encode()
