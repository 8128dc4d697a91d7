"""Build the binaries once into this user's cache.

Interrupted, it goes on where it was: finished binaries stay, and Go's own cache keeps what was compiled.
Two processes at once: one builds, the other waits and says so.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.controlplane.binaries import (
    BINARIES,
    MODULES,
    Binary,
    binaries_folder,
    ldflags,
    missing,
    version_of,
)
from tools.controlplane.clock import pause, seconds
from tools.controlplane.errors import NotBuilt
from tools.controlplane.toolchain import environment, find_go

Say = Callable[[str], None]

FREE_BYTES_MIN = 2 * 10**9
"""The binaries are 0.7 GB; what Go writes beside them while linking is as much again, and a margin."""

HEARTBEAT_SECONDS = 15.0
NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|connection reset|TLS handshake|unexpected EOF"
    r"|network is unreachable|proxyconnect|module lookup disabled"
    r"|\b(?:403|407|429|50[0234])\b.*(?:proxy|Forbidden|Gateway)",
    re.IGNORECASE,
)


def ensure_built(say: Say, *, modules: Path = MODULES) -> Path:
    """Return the folder of the binaries, building what lacks; raises NotBuilt with one message why."""
    folder = binaries_folder(modules)
    if not missing(folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / "controlplane.lock", say):
            _build_missing(folder, say, modules)
    except OSError as error:
        raise _noted(folder, NotBuilt(f"cannot write {folder}: {error.strerror or error}")) from error
    except NotBuilt as error:
        raise _noted(folder, error) from None
    return folder


@contextlib.contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Hold a lock between processes; a holder that dies leaves it free."""
    with path.open("a+") as file:
        waited = 0.0
        while not _taken(file.fileno()):
            if waited % HEARTBEAT_SECONDS == 0:
                file.seek(0)
                say(f"another process ({file.read().strip() or 'unknown'}) builds the control plane; waiting")
            pause(0.5)
            waited += 0.5
        file.truncate(0)
        file.write(f"pid {os.getpid()}")
        file.flush()
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build_missing(folder: Path, say: Say, modules: Path) -> None:
    for leftover in folder.glob(".*.half"):
        leftover.unlink()
    wanted = missing(folder)  # another process may have built them while this one waited
    if not wanted:
        return
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_MIN:
        raise NotBuilt(f"{folder} has {free / 1e9:.1f} GB free, {FREE_BYTES_MIN / 1e9:.0f} GB are needed")
    say(f"building the control plane into {folder}: up to 35 minutes the first time, then never again")
    go = find_go(say)
    for binary in wanted:
        number = BINARIES.index(binary) + 1
        title = f"[{number}/{len(BINARIES)}] {binary.name} {version_of(binary, modules)}"
        say(title)
        took = _build(binary, go, folder, partial(_say_part, say, title), modules)
        say(f"{title}: built in {took:.0f} s")
    (folder / "why-not.txt").unlink(missing_ok=True)


def _say_part(say: Say, title: str, part: str) -> None:
    say(f"{title}: {part}")


def _build(binary: Binary, go: Path, folder: Path, say: Say, modules: Path) -> float:
    half = folder / f".{binary.name}.half"
    began = seconds()
    process = subprocess.Popen(
        [
            *(go, "build", "-v", "-trimpath", f"-tags={binary.tags}", "-ldflags", ldflags(binary, modules)),
            *("-o", half, binary.package),
        ],
        cwd=modules / binary.family,
        env=environment(go),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(HEARTBEAT_SECONDS)
            if reader.is_alive():
                say(f"{seconds() - began:.0f} s, {_so_far(lines)}")
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        reader.join()
    if code != 0:
        raise NotBuilt(why_not(binary, lines, code))
    half.chmod(0o755)
    half.replace(folder / binary.name)
    return seconds() - began


def _read(process: "subprocess.Popen[str]", lines: list[str]) -> None:
    assert process.stderr is not None
    with process.stderr as pipe:
        lines.extend(line.rstrip() for line in pipe)


def _so_far(lines: list[str]) -> str:
    fetched = sum(line.startswith("go: downloading") for line in lines)
    return f"{fetched} modules fetched, {len(lines) - fetched} packages compiled"


def why_not(binary: Binary, lines: list[str], code: int) -> str:
    """Say in one message why a build failed, from what Go printed."""
    full = next((line for line in lines if "no space left on device" in line), None)
    if full:
        return f"{binary.name}: the disk is full ({full.strip()}); Go's caches need about 8 GB the first time"
    network = next((line for line in reversed(lines) if NETWORK.search(line)), None)
    if network:
        return (
            f"{binary.name}: its Go modules could not be fetched ({network.strip()});"
            " give this machine a network, or GOPROXY the address of a mirror, and start again"
        )
    said = [line for line in lines if not re.match(r"^[\w./-]+$|go: downloading", line)]
    return f"{binary.name}: go build ended with {code}: {' | '.join(said[-5:]) or 'it said nothing'}"


def _noted(folder: Path, error: NotBuilt) -> NotBuilt:
    """Keep the reason, so that a test can say why there is nothing to test with."""
    with contextlib.suppress(OSError):
        (folder / "why-not.txt").write_text(f"{error}\n")
    return error
