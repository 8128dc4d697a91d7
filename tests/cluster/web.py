"""Small web servers of tests, in threads: on every loopback address, for pods are told apart by theirs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve a handler on every loopback address; the port."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Quiet(BaseHTTPRequestHandler):
    """Keeps connections, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        """What was sent with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))


class Page(Quiet):
    """Serves a web page: no agent, and no Prometheus."""

    def do_GET(self) -> None:
        """Answer with the page."""
        self.answer(200, b"<html>It works!</html>", "text/html")

    def do_POST(self) -> None:
        """Answer with the page."""
        self.body()
        self.do_GET()
