"""Write a file whole or not at all: what was there before stays until the new one is complete.

Called by everything of the laboratory that writes results. Devices and pipes are written as they are.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def check_writable(target: Path) -> None:
    """Find out whether `replacing` can write here, without a trace of it; raises OSError."""
    if not _is_file_or_free(target):
        if target.is_dir() or not os.access(target, os.W_OK):
            target.open("r+b").close()
        return
    if target.exists():
        target.open("r+b").close()
    if _replaceable(target):
        part = _part_of(target)
        part.open("wb").close()
        part.unlink()


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the target's place at the end; on any failure it is removed.

    A file in a folder that takes no other is written in its place. Raises OSError.
    """
    if not _is_file_or_free(target) or not _replaceable(target):
        with target.open("wb") as file:
            yield file
        return
    part = _part_of(target)
    try:
        with part.open("wb") as file:
            yield file
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        part.replace(target.resolve())
    finally:
        part.unlink(missing_ok=True)


def _is_file_or_free(target: Path) -> bool:
    return target.is_file() or not target.exists()


def _replaceable(target: Path) -> bool:
    """Whether a new file can be made beside it; one that is not there has no other way."""
    return not target.exists() or os.access(target.resolve().parent, os.W_OK | os.X_OK)


def _part_of(target: Path) -> Path:
    """Beside the file itself, where the target is a link to it."""
    return target.resolve().with_name(f".kvtune-{os.getpid()}.part")
