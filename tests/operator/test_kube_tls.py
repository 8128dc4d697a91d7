"""Calls to an API server over TLS that no longer answers."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kvtune_operator.adapters.kube import connect
from tests.fakes.certificates import self_signed
from tests.operator.api_server_answers import PODS
from tools.controlplane.access import write_kubeconfig

WATCHED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[tuple[Path, threading.Event]]:
    """The kubeconfig of an API server that begins a watch (then the event is set) and then does nothing."""
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    began, over = threading.Event(), threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            with context.wrap_socket(listener.accept()[0], server_side=True) as ours:
                ours.recv(1 << 16)
                ours.sendall(WATCHED)
                began.set()
                over.wait()

        server = threading.Thread(target=serve)
        server.start()
        kubeconfig = tmp_path / "kubeconfig"
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        write_kubeconfig(kubeconfig, url=url, ca_file=certificate, token="x")
        yield kubeconfig, began
        over.set()
        server.join()


def test_a_watch_that_is_left_drops_its_connection_and_waits_for_no_farewell(
    frozen: tuple[Path, threading.Event],
) -> None:
    kubeconfig, began = frozen

    async def leave() -> None:
        async with connect(kubeconfig) as kube:

            async def watch() -> None:
                async for _ in kube.watch(PODS, resource_version="1", seconds=30):
                    pass

            task = asyncio.create_task(watch())
            assert await asyncio.to_thread(began.wait, 30)
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(leave())
        gc.collect()

    assert [str(warning.message) for warning in left if warning.category is ResourceWarning] == []
