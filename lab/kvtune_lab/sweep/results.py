"""The result file of a sweep: one line for each finished setup, so that an interrupted sweep goes on.

The first line tells of which trace and which policies the rows are; every other line is one row, written as
soon as it is known. A sweep that was killed in the middle of a line loses that row alone. One sweep at a time
writes to a file.

Errors: OtherResults where the file holds those of another trace, Corrupt for a damaged line, Unavailable
where another sweep holds the file, OSError where it cannot be read or written.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from kvtune_api.errors import Corrupt, Unavailable
from kvtune_lab.setups import Setup
from kvtune_lab.simulation import Simulation
from kvtune_lab.sweep.rows import object_of, simulation_of

FORMAT = "kvtune-sweep/1"
_BEGINNING = b'{"format":"kvtune-sweep/'


class OtherResults(ValueError):
    """Tell the user that a file holds the results of something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all rows of a file have in common."""

    trace: str
    """Digest of the requests."""

    policies: str
    """Digest of the code of the policies."""


class ResultFile:
    """An open result file; `kept` holds the rows that it had. Use it in a `with`."""

    def __init__(self, path: Path, origin: Origin) -> None:
        """Open a file, or begin it; see the module for the errors."""
        self._path = path
        self._file = _opened(path)
        try:
            _lock(self._file, path)
            self.kept = self._read(origin)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """Give the file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, its rows on the disk."""
        with self._file:
            os.fsync(self._file.fileno())

    def add(self, done: Simulation) -> None:
        """Append one row."""
        self._append(asdict(done))
        self.kept[done.setup] = done

    def _append(self, data: object) -> None:
        self._file.write(json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def _read(self, origin: Origin) -> dict[Setup, Simulation]:
        """Read what is there and cut off a line that was not written to its end; a foreign file stays."""
        data = self._file.read()
        if not (data.startswith(_BEGINNING) or _BEGINNING.startswith(data)):
            raise OtherResults(f"{self._path}:1: is not a result file of kvtune sweep")
        lines = data.split(b"\n")[:-1]
        if lines:
            self._check(lines[0], origin)
        kept = {done.setup: done for done in self._rows(lines[1:])}
        self._file.seek(sum(len(line) + 1 for line in lines))
        self._file.truncate()
        if not lines:
            self._append({"format": FORMAT, **asdict(origin)})
        return kept

    def _check(self, head: bytes, origin: Origin) -> None:
        try:
            data = object_of(head)
            found = data.pop("format")
            theirs = Origin(**data) if found == FORMAT else None
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{self._path}:1: is not the head of a result file: {error}") from error
        if theirs is None:
            raise OtherResults(f"{self._path}:1: format: {found!r} is not {FORMAT!r}")
        if theirs.trace != origin.trace:
            raise OtherResults(f"{self._path}:1: trace: {theirs.trace} is not this trace, {origin.trace}")
        if theirs.policies != origin.policies:
            raise OtherResults(
                f"{self._path}:1: policies: {theirs.policies} is another version of the policies than "
                f"{origin.policies}"
            )

    def _rows(self, lines: list[bytes]) -> Iterator[Simulation]:
        for number, line in enumerate(lines, 2):
            try:
                yield simulation_of(line)
            except ValueError as error:
                raise Corrupt(f"{self._path}:{number}: is not a row of a sweep: {error}") from error


def _opened(path: Path) -> BinaryIO:
    """Open for reading and writing without emptying the file."""
    try:
        return path.open("r+b")
    except FileNotFoundError:
        return path.open("x+b")


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Unavailable(f"{path}: another sweep is writing to it") from error
