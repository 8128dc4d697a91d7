"""`make gpu-check`: measures on a GPU; elsewhere one line says why it did not run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.kernels.tables import DEVICE
from tests.benchmarks.kernels_bandwidth import TINY, Figure, Figures, lines, measured

ROOT = Path(__file__).resolve().parents[3]


def _once(work: Callable[[], object]) -> float:
    """A clock for the test: each piece of work runs once and takes a millisecond."""
    work()
    return 1e-3


def _figures(*, gather_s: float) -> Figures:
    copy, gather = (
        Figure(name=name, bytes=10**9, seconds=s) for name, s in (("copy", 1.0), ("gather", gather_s))
    )
    return Figures(copy=copy, moves=(gather,), others=(), stepwise_s=1e-4, replayed_s=5e-5)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a GPU is here: the check would run")
def test_without_a_gpu_it_says_in_one_line_that_it_did_not_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.kernels_gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "kvtune: the GPU check did not run: this machine has no GPU\n"


def test_everything_that_is_measured_runs() -> None:
    figures = measured(TINY, DEVICE.type, _once)

    assert [figure.name for figure in figures.moves] == ["gather", "scatter"]
    assert figures.copy.bytes == 2 * 3 * 1 * 2 * 2 * 1 * 4 * 2
    assert lines(figures)[1].split()[-3:] == ["0.0", "100.0%", "1.000"]


@pytest.mark.parametrize(("gather_s", "verdict"), [(1.0, "reached"), (1.2, "MISSED")])
def test_a_copy_under_85_percent_of_the_devices_own_is_a_failure(gather_s: float, verdict: str) -> None:
    figures = _figures(gather_s=gather_s)

    assert figures.reached == (verdict == "reached")
    assert lines(figures)[-1] == f"gather and scatter at 85% of the device's own copy: {verdict}"
