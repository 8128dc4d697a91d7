"""Check the kernels where a GPU is: `make gpu-check`. Elsewhere say in one line that nothing ran.

Runs the tests of the kernels compiled, then measures their bandwidth against the device's own copy. Needs
torch, Triton, pytest and hypothesis alone, so that it also runs where the rest of the tools is not installed.
"""

import subprocess
import sys
from importlib.util import find_spec


def obstacle() -> str | None:
    """Why the check cannot run here."""
    if not find_spec("torch"):
        return "torch is not installed (`make kernels` installs it, 5 GB)"
    import torch

    return None if torch.cuda.is_available() else "this machine has no GPU"


def main() -> int:
    """Exit with 1 where a test fails, or a copy is slower than it should be."""
    reason = obstacle()
    if reason:
        print(f"kvtune: the GPU check did not run: {reason}")
        return 0
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "tests/agent/kernels"], check=False
    ).returncode
    from tests.benchmarks.kernels_bandwidth import FULL, lines, measured, timed_by_events

    figures = measured(FULL, "cuda", timed_by_events)
    for line in lines(figures):
        print(line)
    return 1 if tested or not figures.reached else 0


if __name__ == "__main__":
    sys.exit(main())
