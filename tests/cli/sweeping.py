"""A trace of generated chat and the command that sweeps it, as tests give it."""

from pathlib import Path

from kvtune_cli.main import run
from kvtune_lab.__main__ import main as lab


def recorded(path: Path, requests: int = 300) -> Path:
    """Generated chat as a trace."""
    assert lab(["record", str(path), "--requests", str(requests)]) == 0
    return path


def sweep(trace: Path, *args: object) -> int:
    """Run the command and return the code with which it ends."""
    return run(["sweep", str(trace), *map(str, args)])
