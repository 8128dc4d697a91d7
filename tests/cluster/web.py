"""Small web servers of tests, in threads: on every loopback address, for pods are told apart by theirs."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(
    handler: Callable[..., BaseHTTPRequestHandler], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Serve a handler on every loopback address, over https with a context; the port."""
    server = _Server(("0.0.0.0", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave, or do not trust us."""


class Quiet(BaseHTTPRequestHandler):
    """Keeps connections, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a GET."""
        self.get()

    def do_POST(self) -> None:
        """Answer a POST."""
        self.post(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def get(self) -> None:
        """Answer a GET: there is nothing here."""
        self.answer(404, b"")

    def post(self, body: bytes) -> None:
        """Answer a POST: there is nothing here."""
        self.answer(404, b"")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Page(Quiet):
    """Serves a web page: no agent, and no Prometheus."""

    def get(self) -> None:
        """Answer with the page."""
        self.answer(200, b"<html>It works!</html>", "text/html")

    def post(self, body: bytes) -> None:
        """Answer with the page."""
        self.get()
