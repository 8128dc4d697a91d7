"""Where the demo's cluster lies, and what is written there for those who look at it: `place.json`."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tools.controlplane.binaries import cache_folder
from tools.controlplane.clock import until

STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A running cluster of the demo."""

    pid: int
    """The process that holds it: it ends with that process."""

    kubeconfig: str
    binaries: str
    url: str
    prometheus: str
    logs: str

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The cluster of this folder; None where none runs."""
        try:
            found: Mapping[str, Any] = json.loads((folder / "place.json").read_text())
            place = cls(**found)
        except (OSError, ValueError, TypeError):
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


def _is_ours(pid: int) -> bool:
    """Whether this process is a demo's holder (process ids are used again)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and b"tools.demo_kubernetes" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
