"""What holds for every test: no connection leaves this machine.

An audit hook of the interpreter sees each connection of this process, whichever library opens it, and nothing
of the product is patched. Processes that a test starts are not seen.
"""

import ipaddress
import socket
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

_refused: list[str] = []


class ConnectionBeyondLoopbackError(RuntimeError):
    """A test tried to reach another machine, or a name that only a resolver knows."""


def _is_loopback(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in (None, "", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _refuse(what: str) -> None:
    _refused.append(what)
    raise ConnectionBeyondLoopbackError(f"{what}: tests may reach loopback addresses only")


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        sock, address = args[0], args[1]
        inet = isinstance(sock, socket.socket) and sock.family in (socket.AF_INET, socket.AF_INET6)
        if inet and isinstance(address, tuple) and not _is_loopback(address[0]):
            _refuse(f"{event} to {address[0]}")
    elif event == "socket.getaddrinfo" and not (_is_loopback(args[0]) or _is_address(args[0])):
        _refuse(f"look-up of {args[0]!r}")


def _is_address(host: object) -> bool:
    try:
        ipaddress.ip_address(str(host))
    except ValueError:
        return False
    return True


def pytest_configure() -> None:
    """Start to watch this process, a worker of xdist included."""
    sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def refused_connections() -> Iterator[list[str]]:
    """Fail a test whose code swallowed a refusal, as code that retries connections does."""
    _refused.clear()
    yield _refused
    refused = list(_refused)
    _refused.clear()
    assert refused == []


settings.register_profile("kvtune", deadline=None)  # these machines are noisy: never assert time
settings.load_profile("kvtune")
