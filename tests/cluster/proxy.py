"""A connection to the API server that a test can freeze or cut, as a network does."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

CHUNK = 65_536
LOOK_SECONDS = 0.05


class Proxy:
    """Forwards bytes of every connection to one server; while frozen nothing passes and nothing is closed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 443)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._flows = threading.Event()
        self._flows.set()
        self._closed = False
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def freeze(self) -> None:
        """Let nothing pass; new connections are taken and stay silent."""
        self._flows.clear()

    def thaw(self) -> None:
        """Let everything pass again."""
        self._flows.set()

    def cut(self) -> None:
        """Close every connection."""
        for held in tuple(self._sockets):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self._closed = True
        self._flows.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets |= {ours, theirs}
            for source, sink in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self._flows.wait()
                sink.sendall(data)
        for held in (source, sink):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            self._sockets.discard(held)
            held.close()


@contextlib.contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy for as long as a test needs it."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
