"""Serve one agent on its address until it is told to stop.

Called by `__main__` and by the command line. SIGTERM and SIGINT stop it gracefully; a candidate then ends
with the process, and the incumbent's file stays."""

import asyncio
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvicorn

from kvtune_agent.agent import open_agent, token_file
from kvtune_agent.app import create_app
from kvtune_agent.clock import WallClock
from kvtune_agent.exits import CertificateUnavailable, PortUnavailable
from kvtune_agent.incumbent import write_atomically
from kvtune_agent.settings import AgentSettings

GRACEFUL_SECONDS = 3
PORT_FILE = "port"


async def run_agent(settings: AgentSettings, *, listening: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `listening` gets the URL once connections are accepted.

    The port in use is in `state_dir/port`. Raises what `open_agent` raises, `PortUnavailable`, and
    `CertificateUnavailable`.
    """
    tls = tls_context(settings)
    agent = open_agent(settings, WallClock(origin=settings.origin, speed=settings.speed))
    try:
        with bound_socket(settings) as sock:
            port = sock.getsockname()[1]
            write_atomically(settings.state_dir / PORT_FILE, f"{port}\n")
            url = _url("https" if tls else "http", settings.host, port)
            server = _Server(_config(create_app(agent, token_file(settings)), tls))
            if listening is not None:
                server.when_started = partial(listening, url)
            with _stopping(server):
                await server.serve(sockets=[sock])
    finally:
        agent.close()


class _Server(uvicorn.Server):
    """A server that says when it has started and leaves signals to us (uvicorn raises them again later)."""

    when_started: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self.when_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def tls_context(settings: AgentSettings) -> ssl.SSLContext | None:
    """The certificate to serve with, None for plain http. Raises `CertificateUnavailable`."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password=_no_password)
    except (OSError, ValueError) as error:
        files = f"{settings.tls_cert_file} with key {settings.tls_key_file}"
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CertificateUnavailable(f"certificate {files} cannot be used: {why}") from error
    return context


def _no_password() -> str:
    """Refuse a key with a password, for which OpenSSL would ask at the terminal."""
    raise ValueError("the key is encrypted; give one without a password")


def _config(app: object, tls: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # FastAPI, which create_app returns, is an ASGI application
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )


@contextmanager
def bound_socket(settings: AgentSettings) -> Iterator[socket.socket]:
    """A listening socket; its protocol is named, or asyncio would leave Nagle's delay (40 ms) on."""
    sock = socket.socket(_family(settings.host), socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((settings.host, settings.port))
            sock.listen(128)
        except OSError as error:
            where = f"{settings.host} port {settings.port}"
            raise PortUnavailable(f"{where} cannot be listened on: {error.strerror or error}") from error
        yield sock


@contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[None]:
    """Stop on the first signal, at once on the second."""

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
