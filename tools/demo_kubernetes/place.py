"""Where the demo's cluster lies, and what is written there for those who look at it: `place.json`.

One process, the holder, has the lock of the folder for its whole life; only it writes `place.json`.
"""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from tools.controlplane.binaries import cache_folder
from tools.controlplane.clock import until

STOP_SECONDS = 60.0
APPEAR_SECONDS = 5.0
"""A holder writes its place as soon as it has the lock."""


class Taken(Exception):
    """Another process holds this folder; the message says which."""


class State(StrEnum):
    """How far a cluster is."""

    STARTING = "starting"
    UP = "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster of the demo that starts or runs; the addresses are empty until it is up."""

    pid: int
    """The process that holds it: it ends with that process."""

    state: State
    kubeconfig: str = ""
    binaries: str = ""
    url: str = ""
    prometheus: str = ""
    logs: str = ""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The cluster of this folder, starting or up; None where there is none."""
        try:
            found: Mapping[str, Any] = json.loads((folder / "place.json").read_text())
            place = cls(**{**found, "state": State(found["state"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return place if _is_ours(place.pid) else None

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        half = folder / "place.json.half"
        half.write_text(json.dumps(asdict(self), indent=1))
        half.replace(folder / "place.json")

    def stop(self) -> bool:
        """End the cluster and everything in it; False when it did not end in time and was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        ended = until(lambda: not _is_ours(self.pid), STOP_SECONDS) is not None
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # its processes are on a leash: they end with it
        return ended


def demo_folder() -> Path:
    """The folder of this user's demo cluster: one at a time."""
    return cache_folder() / "demo-kubernetes"


@contextlib.contextmanager
def sole_holder(folder: Path) -> Iterator[None]:
    """Hold the folder; raises Taken at once when another process does. A holder that dies leaves it free."""
    with _lock_file(folder) as descriptor:
        if not _locked(descriptor):
            other = Place.read(folder)
            who = f"process {other.pid}, {other.state}" if other else "a process that just begins"
            raise Taken(f"another cluster of the demo ({who}) is in {folder}: `make down` ends it")
        try:
            yield
        finally:
            (folder / "place.json").unlink(missing_ok=True)


def found_place(folder: Path) -> Place | None:
    """The cluster of this folder, also that of a holder which only just has the lock."""
    place = Place.read(folder)
    if place is None and _is_held(folder):
        place = until(lambda: Place.read(folder), APPEAR_SECONDS)
    return place


def _is_held(folder: Path) -> bool:
    if not (folder / "hold.lock").exists():
        return False
    with _lock_file(folder) as descriptor:
        return not _locked(descriptor)


@contextlib.contextmanager
def _lock_file(folder: Path) -> Iterator[int]:
    with (folder / "hold.lock").open("a") as file:
        yield file.fileno()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(pid: int) -> bool:
    """Whether this process is a demo's holder (process ids are used again)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and b"tools.demo_kubernetes" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
