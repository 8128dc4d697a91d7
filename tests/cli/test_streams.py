"""Output that nobody takes: full disks, closed streams, readers that leave, narrow character sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INVALID, VALID = ROOT / "examples" / "invalid.yaml", ROOT / "examples" / "minimal.yaml"


def _shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = line.replace("kvtune", f"{sys.executable} -m kvtune_cli")
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line_and_unavailable() -> None:
    done = _shell(f"kvtune validate -f {INVALID} >/dev/full")
    assert done.returncode == 4
    assert done.stderr.strip() == "kvtune: writing the result failed: No space left on device"


def test_a_closed_standard_output_changes_no_exit_code() -> None:
    assert _shell(f"kvtune validate -f {INVALID} >&-").returncode == 3
    assert _shell(f"kvtune validate -f {VALID} >&-").returncode == 0


def test_a_reader_that_leaves_sees_no_traceback() -> None:
    done = _shell(f"kvtune validate --json -f {INVALID} | head -c 1")
    assert "Traceback" not in done.stderr and "bug" not in done.stderr


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(VALID.read_text().replace("name: minimal", 'name: "ü"'))
    done = _shell(f"kvtune validate -f {path}", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 3
    assert r"'\xfc'" in done.stdout + done.stderr
