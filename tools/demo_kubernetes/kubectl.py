"""Run kubectl for the demo, as a person would."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60.0


class KubectlError(Exception):
    """kubectl said no; the message is its own."""


class Kubectl:
    """The kubectl that was built, with the demo's kubeconfig."""

    def __init__(self, binaries: Path, kubeconfig: Path) -> None:
        self._program = binaries / "kubectl"
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *arguments: str, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
        """What it prints; raises KubectlError with what it says when it fails."""
        try:
            done = subprocess.run(
                [self._program, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(
                f"kubectl {' '.join(arguments)}: no answer in {timeout_seconds:.0f} s"
            ) from error
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        """Objects of a kind."""
        return list(json.loads(self("get", kind, *arguments, "-o", "json"))["items"])
