"""Start a stand-in as a process of its own, for tests and demos that are not asynchronous."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kubelet_standin.images import ROOT
from tools.kubelet_standin.pod import log_folder

STOP_SECONDS = 20.0


class StandinProcess:
    """A context in which nodes of these names are Ready and run their pods.

    Entering it raises OSError with the end of what the process said. The nodes' objects stay.
    """

    def __init__(
        self, kubeconfig: Path, folder: Path, nodes: Sequence[str], labels: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._log = folder / "standin.log"
        self._command = [sys.executable, "-m", "tools.kubelet_standin", f"--kubeconfig={kubeconfig}"]
        self._command += [f"--folder={folder}", *(f"--node={name}" for name in nodes)]
        self._command += [f"--label={key}={value}" for key, value in (labels or {}).items()]

    def __enter__(self) -> "StandinProcess":
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self.process.stdout is not None
        if not self.process.stdout.readline().startswith(b"nodes ready"):
            self._end()
            raise OSError(f"the kubelet's stand-in did not start: {self.said()[-500:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def said(self) -> str:
        """What the stand-in itself has written."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def logs(self, namespace: str, pod: str) -> str:
        """Everything that a pod's containers have written, runs in order; also of pods that are gone."""
        files = sorted(log_folder(self._folder, namespace, pod).glob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def kill(self) -> None:
        """Kill it with signal 9."""
        self.process.kill()
        self.process.wait()

    def _end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
