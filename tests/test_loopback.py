"""The guard of conftest.py refuses what would leave this machine, and nothing else."""

import socket
from pathlib import Path

import pytest


def test_an_address_of_another_machine_is_refused_before_a_packet_leaves(
    refused_connections: list[str],
) -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match=r"socket\.connect to 192\.0\.2\.1"):
        sock.connect(("192.0.2.1", 80))

    assert refused_connections == ["socket.connect to 192.0.2.1"]
    refused_connections.clear()


def test_a_name_that_needs_a_resolver_is_refused(refused_connections: list[str]) -> None:
    with pytest.raises(RuntimeError, match=r"look-up of 'agent\.invalid'"):
        socket.getaddrinfo("agent.invalid", 80)

    refused_connections.clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.9.8.7"])
def test_loopback_connects(host: str) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port), timeout=5) as client:
            assert client.getpeername()[1] == port


def test_a_unix_socket_connects(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)

        assert client.getpeername() == path
