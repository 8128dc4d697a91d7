"""One process of the control plane: how it starts, and that it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import until
from tools.controlplane.binaries import ROOT
from tools.controlplane.errors import NotStarted
from tools.controlplane.process import Process


def _gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_a_process_that_ends_before_it_is_ready_shows_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("broken", ["/bin/sh", "-c", "echo bad flag >&2; exit 3"], folder=tmp_path)
    process.start()

    with pytest.raises(NotStarted, match=r"broken ended with 3; the end of .*broken\.log:\n    bad flag"):
        process.wait_ready(lambda: False)


def test_a_process_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    process = Process("slow", ["/bin/sh", "-c", "echo waiting; exec sleep 1000"], folder=tmp_path)
    process.start()
    try:
        with pytest.raises(NotStarted, match="slow was not ready after 0 s"):
            process.wait_ready(lambda: False, within_seconds=0.2)
    finally:
        process.kill()


def test_a_process_that_ignores_sigterm_is_ended_all_the_same(tmp_path: Path) -> None:
    process = Process(
        "deaf", ["/bin/sh", "-c", "trap '' TERM; echo on; while :; do sleep 1; done"], folder=tmp_path
    )
    process.start()
    process.wait_ready(lambda: "on" in process.log())
    process.stop(within_seconds=0.2)

    assert not process.alive


def test_a_frozen_process_is_ended_in_good_order(tmp_path: Path) -> None:
    process = Process(
        "cold", ["/bin/sh", "-c", "trap 'echo bye; exit' TERM; echo on; while :; do :; done"], folder=tmp_path
    )
    process.start()
    process.wait_ready(lambda: "on" in process.log())
    process.freeze()
    process.stop()

    assert not process.alive
    assert "bye" in process.log()


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import sys, signal; from pathlib import Path; from tools.controlplane.process import Process;"
        "p = Process('child', ['/bin/sleep', '1000'], folder=Path(sys.argv[1])); p.start();"
        "p.wait_ready(lambda: 'sleep' in Path(f'/proc/{p.pid}/comm').read_text()); print(p.pid, flush=True);"
        "signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not _gone(child)
        parent.kill()

    until(lambda: _gone(child), "the child of a killed parent is gone")
