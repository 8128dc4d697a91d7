"""One control plane for several processes: it lives as long as one of them holds on to it.

The first to ask starts a keeper, a process of its own that starts the control plane and listens on a Unix
socket. Who uses the control plane holds a connection, which the kernel closes when a user dies; when the last
one is gone, the keeper ends the control plane and itself. When the keeper dies, the kernel ends what it
started.
"""

import dataclasses
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tools.controlplane.access import Access
from tools.controlplane.binaries import ROOT
from tools.controlplane.clock import seconds, until
from tools.controlplane.crds import apply_crds
from tools.controlplane.errors import ControlPlaneError, NotStarted
from tools.controlplane.plane import ControlPlane

START_SECONDS = 240.0
FIRST_USER_SECONDS = 30.0
"""How long a keeper waits for its first user, who started it."""

LINGER_SECONDS = 1.0
LOOK_SECONDS = 0.2


@contextmanager
def shared_control_plane(folder: Path) -> Iterator[Access]:
    """Hold on to the control plane of this folder, starting it where nobody has.

    Raises NotStarted when it does not start, with what the keeper said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hold = _join(folder) or _start(folder)
    with hold:
        yield _access(folder)


def keep(folder: Path) -> int:
    """Start the control plane, then hold it while it has users; the exit code of the keeper's process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with ControlPlane(folder / "plane", controllers=True, scheduler=True) as plane:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(_address(folder))
                listener.listen(64)
                apply_crds(plane.access)
                _write_atomically(folder / "access.json", _to_json(plane.access))
                _while_used(listener)
            (folder / "access.json").unlink(missing_ok=True)
    except ControlPlaneError as error:
        _write_atomically(folder / "failed.txt", f"{error}\n")
        return 1
    return 0


def _while_used(listener: socket.socket) -> None:
    users = 0
    idle_since, patience = seconds(), FIRST_USER_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while users or seconds() - idle_since < patience:
            for key, _ in selector.select(LOOK_SECONDS):
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                    users += 1
                elif _is_gone(connection := _socket(key.fileobj)):
                    selector.unregister(connection)
                    connection.close()
                    users -= 1
                    idle_since, patience = seconds(), LINGER_SECONDS


def _is_gone(connection: socket.socket) -> bool:
    try:
        return connection.recv(64) == b""
    except OSError:
        return True


def _socket(file: Any) -> socket.socket:
    assert isinstance(file, socket.socket)
    return file


def _start(folder: Path) -> socket.socket:
    for name in ("access.json", "failed.txt"):
        (folder / name).unlink(missing_ok=True)
    with (folder / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tools.controlplane", "keep", str(folder)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    hold = until(lambda: keeper.poll() is not None or _join(folder), START_SECONDS)
    if isinstance(hold, socket.socket):
        keeper.returncode = 0  # it outlives us where others use it: not ours to wait for
        return hold
    keeper.kill()
    keeper.wait()
    said = folder / ("failed.txt" if (folder / "failed.txt").exists() else "keeper.log")
    raise NotStarted(f"the shared control plane did not start: {said.read_text().strip()[-3000:]}")


def _join(folder: Path) -> socket.socket | None:
    if not (folder / "access.json").exists():
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(_address(folder))
    except OSError:
        connection.close()
        return None
    return connection


def _address(folder: Path) -> str:
    """Return a name outside of the file system, where the length of the folder's path does not matter."""
    place = os.stat(folder)
    return f"\0kvtune-control-plane-{place.st_dev}-{place.st_ino}"


def _to_json(access: Access) -> str:
    return json.dumps({name: str(value) for name, value in dataclasses.asdict(access).items()})


def _access(folder: Path) -> Access:
    with suppress(FileNotFoundError):
        known: dict[str, str] = json.loads((folder / "access.json").read_text())
        return Access(
            url=known["url"],
            ca_file=Path(known["ca_file"]),
            admin_token=known["admin_token"],
            kubeconfig=Path(known["kubeconfig"]),
            binaries=Path(known["binaries"]),
            audit_file=Path(known["audit_file"]),
        )
    raise NotStarted(f"the control plane of {folder} ended while it was joined")


def _write_atomically(path: Path, text: str) -> None:
    half = path.with_suffix(".half")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    half.replace(path)
