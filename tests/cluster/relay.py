"""A relay of TCP connections that can freeze: bytes are taken and go nowhere, connections stay open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Relay:
    """Passes bytes on to one port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        """Where it listens."""

    def freeze(self) -> None:
        """Let nothing pass any more, in either direction."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Let everything pass again, what was held up first."""
        self._thawed.set()

    def cut(self) -> None:
        """End every connection, without a farewell to either side."""
        for task in self._tasks:
            task.cancel()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Relay"]:
        """Listen until this is closed."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            tasks = list(self._tasks)
            self.cut()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there, onward = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, onward))
                    group.create_task(self._pass(there, writer))
        finally:
            for end in (onward, writer):
                end.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            await self._thawed.wait()
            writer.write(part)
            await writer.drain()
        raise ConnectionResetError
