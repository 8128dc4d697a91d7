"""A sweep that is interrupted or killed: what is kept, and that the same command goes on."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from tests.cli.sweeping import recorded

CAPACITIES = ",".join(str(blocks) for blocks in range(50, 1250, 40))
"""30 setups of about a tenth of a second each: time enough to end it in the middle."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900 requests of generated chat."""
    return recorded(tmp_path_factory.mktemp("trace") / "chat.jsonl", requests=900)


def command(trace: Path, out: Path) -> list[str]:
    """The sweep as a process of its own."""
    return [
        sys.executable, "-m", "kvtune_cli", "sweep", str(trace),
        "--policies", "LRU", "--capacities", CAPACITIES, "--out", str(out),
    ]  # fmt: skip


def ended(trace: Path, out: Path, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Send a signal as soon as two rows are there."""
    with subprocess.Popen(
        command(trace, out), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        while run.poll() is None and lines(out) < 3:
            select.select([], [], [], 0.01)
        os.kill(run.pid, number)
        told = run.communicate(timeout=60)
        return subprocess.CompletedProcess(run.args, run.returncode, *told)


def lines(path: Path) -> int:
    """Lines that are written to their end."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def finished(trace: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(command(trace, out), capture_output=True, text=True, timeout=120, check=True)


def test_a_sweep_that_is_interrupted_says_what_is_kept_and_goes_on(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    stopped = ended(trace, out, signal.SIGINT)
    kept = lines(out) - 1
    assert stopped.returncode == ExitCode.INTERRUPTED
    assert stopped.stderr == (
        f"kvtune: interrupted: {kept} of 30 rows are finished; kept in {out}: the same command goes on\n"
    )
    assert "All rows" in stopped.stdout, "what is finished is shown"
    assert 2 <= kept < 30
    assert f"{out}: {kept} of 30 rows are there\n" in finished(trace, out).stderr


def test_a_sweep_that_is_killed_goes_on_and_ends_as_if_it_had_not_been(trace: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    assert ended(trace, out, signal.SIGKILL).returncode == -signal.SIGKILL
    kept = out.read_bytes().rpartition(b"\n")[0]
    again, undisturbed = finished(trace, out), finished(trace, whole)
    assert out.read_bytes().startswith(kept), "rows that were there are not made again"
    assert sorted(out.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())
    assert again.stdout == undisturbed.stdout
