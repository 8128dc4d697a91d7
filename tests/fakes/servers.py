"""Real servers on loopback for tests of adapters: whatever bytes a test wants, or an application."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import ASGIApp

from kvtune_operator.health import served

Say = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Given the request line, write an answer."""

Hear = Callable[[dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Given the headers (lower case) and the body, a status and a JSON body."""


@contextlib.asynccontextmanager
async def raw_server(say: Say) -> AsyncIterator[str]:
    """Serve raw bytes; gives the address. Each connection gets one answer and is closed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await say(head.split(b"\r\n")[0].decode(), writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


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

    handling: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
            head = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            status, body = await hear(head, await reader.readexactly(int(head.get("content-length", "0"))))
            kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"HTTP/1.1 {status} X\r\n{kind}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*(task for task in handling if task is not None))


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
