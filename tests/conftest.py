"""What holds for every test: no connection leaves this machine; those that wait longest begin first.

An audit hook of the interpreter sees each connection of this process, whichever library opens it, and nothing
of the product is patched. Processes that a test starts are not seen.
"""

import ipaddress
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

FIRST = ("tests/e2e/", "tests/cluster/")
"""Their tests wait for real processes: the sooner they begin, the more others run meanwhile."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring those that wait longest to the front."""
    items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in FIRST])


class Scheduling(LoadFileScheduling):
    """The tests of a file share a worker, as they share processes; those of tests/e2e share one fleet."""

    def _split_scope(self, nodeid: str) -> str:
        """The unit of work that a test belongs to."""
        return FIRST[0] if nodeid.startswith(FIRST[0]) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Hand out tests by `Scheduling`, with one worker as with many."""
    return Scheduling(config, log)
