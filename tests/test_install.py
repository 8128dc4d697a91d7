"""What a person reads when their machine lacks something that the installation needs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _install(checkout: Path, kind: str, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "requirements/install.sh", kind],
        cwd=checkout,
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _script(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def test_an_older_python_is_named_with_the_version_that_is_needed(checkout: Path) -> None:
    old = _script(checkout / "old", '[ "$1" = --version ] && echo "Python 3.9.18" && exit 0', "exit 1")
    done = _install(checkout, "run", old)

    assert done.returncode == 1
    assert "needs Python 3.11 or newer, found: Python 3.9.18" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_that_does_not_exist_is_named(checkout: Path) -> None:
    done = _install(checkout, "run", "/no/python")

    assert done.returncode == 1
    assert "found: no /no/python" in done.stderr


def test_a_python_without_venv_names_the_package_to_install(checkout: Path) -> None:
    lame = _script(
        checkout / "lame",
        '[ "$2" = venv ] && echo "ensurepip is not available" && exit 1',
        f'exec {sys.executable} "$@"',
    )
    done = _install(checkout, "run", lame)

    assert done.returncode == 1
    assert "ensurepip is not available" in done.stderr
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_each_package_is_shown_while_pip_works(checkout: Path) -> None:
    pip = _script(
        checkout / "pip",
        'case "$*" in',
        "*--editable*) exit 0 ;;",
        "*pip*install*)",
        '    [ -n "$PYTHONUNBUFFERED" ] || exit 1',
        '    echo "Requirement already satisfied: numpy"; echo "Collecting pydantic==2 (from -r run.txt)"',
        # The fake pip goes on only when its line was shown: a reader that buffers would time out.
        f'    until grep -q pydantic "{checkout}/shown"; do :; done',
        '    echo "Installing collected packages: pydantic" ;;',
        "esac",
    )
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "pip"):
        (checkout / ".venv" / "bin" / name).symlink_to(pip)
    with (checkout / "shown").open("w", encoding="utf-8") as shown:
        done = subprocess.run(
            ["bash", "requirements/install.sh", "run"], cwd=checkout, stdout=shown, timeout=60, check=False
        )

    assert done.returncode == 0
    lines = (checkout / "shown").read_text().splitlines()
    assert lines[1].startswith("  [2/") and lines[1].endswith("] pydantic==2")
    assert "installing what was fetched" in lines[2]
    assert "Requirement already satisfied" in (checkout / ".venv" / "install.log").read_text()


def test_an_unknown_kind_is_refused(checkout: Path) -> None:
    done = _install(checkout, "prod", sys.executable)

    assert done.returncode == 2
    assert "no lock file requirements/prod.txt" in done.stderr


def test_torch_is_added_to_an_environment_that_is_there(checkout: Path) -> None:
    done = _install(checkout, "gpu", sys.executable)

    assert done.returncode == 1
    assert "no .venv to add torch to: make install-dev first" in done.stderr


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_torch_is_added_once_with_uv_where_it_is_and_else_with_pip(checkout: Path, tool: str) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", tool):
        _script(checkout / ".venv" / "bin" / name, f'echo "$0 $*" >>{checkout}/calls')

    done = [_install(checkout, "gpu", sys.executable) for _ in range(2)]

    assert [each.returncode for each in done] == [0, 0]
    assert "5 GB" in done[0].stdout and done[1].stdout == ""
    (call,) = (checkout / "calls").read_text().splitlines()
    assert call.startswith(".venv/bin/uv pip install" if tool == "uv" else ".venv/bin/python -m pip install")
    assert call.endswith("--require-hashes --requirement requirements/gpu.txt")
