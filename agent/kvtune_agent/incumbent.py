"""The incumbent on disk: what an agent returns to after a restart, and the fence against stale writers.

One JSON file in the state directory, replaced atomically (written beside, synced, renamed). A file that
cannot be read as that is never guessed at: the agent does not start and says which line is wrong. A lock
keeps a second agent off."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kvtune_agent.apply import Fence, Held, whole
from kvtune_agent.exits import StateUnavailable
from kvtune_api.codec import dump, frozen, parse
from kvtune_api.errors import Corrupt, Problem, SpecError
from kvtune_api.knobs import CacheConfig
from kvtune_api.wire import FallbackRules

FILE_NAME = "incumbent.json"
LOCK_NAME = "lock"


@frozen
class Kept:
    """What outlives an agent process."""

    version: Literal[1] = 1
    incumbent: CacheConfig
    token: Annotated[int, Field(ge=0)]
    policy_uid: Annotated[str, Field(max_length=64)]
    generation: Annotated[int, Field(ge=0)]
    assignment: Annotated[str, Field(max_length=64)]
    fallback_rules: FallbackRules | None = None


def kept(held: Held) -> Kept:
    """What of `held` outlives the process: the incumbent, the fence and the rules, never a candidate."""
    return Kept(
        incumbent=held.incumbent,
        token=held.fence.token,
        policy_uid=held.fence.policy_uid,
        generation=held.fence.generation,
        assignment=held.fence.assignment,
        fallback_rules=held.fallback_rules,
    )


def restored(kept: Kept, start: CacheConfig) -> Held:
    """What an agent holds after a restart: the incumbent, under the same fence.

    `start` stands in for a knob that the file lacks: it may be of a version that did not have it.
    """
    fence = Fence(
        token=kept.token,
        policy_uid=kept.policy_uid,
        generation=kept.generation,
        assignment=kept.assignment,
    )
    incumbent = whole(kept.incumbent, start)
    return Held(incumbent=incumbent, fence=fence, fallback_rules=kept.fallback_rules)


@dataclass(frozen=True, slots=True)
class StateDir:
    """A directory that one agent owns."""

    path: Path
    lock: int
    """The open descriptor that holds the lock."""

    @property
    def file(self) -> Path:
        """Where the incumbent is kept."""
        return self.path / FILE_NAME

    def load(self) -> Kept | None:
        """What was kept; None when nothing was. Raises `Corrupt` naming file and line, `StateUnavailable`."""
        try:
            text = self.file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateUnavailable(f"{self.file} cannot be read: {error.strerror}") from error
        return _parsed(self.file, text)

    def save(self, kept: Kept) -> None:
        """Replace what is kept atomically. Raises `StateUnavailable`; the old file then stands."""
        text = json.dumps(dump(kept), indent=2, allow_nan=False) + "\n"
        write_atomically(self.file, text)

    def close(self) -> None:
        """Give the directory back."""
        os.close(self.lock)


def open_state_dir(path: Path) -> StateDir:
    """Make and lock a state directory. Raises `StateUnavailable`, also when another agent has it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StateUnavailable(f"state directory {path} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StateUnavailable(f"state directory {path} belongs to another running agent") from error
    return StateDir(path, lock)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old one or the new one. Raises `StateUnavailable`."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise StateUnavailable(f"{path} cannot be written: {error.strerror}") from error


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _parsed(file: Path, text: bytes) -> Kept:
    try:
        data = json.loads(text)
        return parse(Kept, data)
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _corrupt(file, line, "is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise _corrupt(file, error.lineno, error.msg if text.strip() else "the file is empty") from error
    except RecursionError as error:
        raise _corrupt(file, 1, "is nested too deeply") from error
    except SpecError as error:
        problem = error.problems[0]
        raise _corrupt(file, _line(text, problem), str(problem)) from error


def _corrupt(file: Path, line: int, what: str) -> Corrupt:
    return Corrupt(
        f"{file} line {line}: {what}. Restore the file, or remove it to begin with the start configuration"
        " (the control plane then pushes the incumbent again)"
    )


def _line(text: bytes, problem: Problem) -> int:
    """The line of the field that a problem is about; the first line when it is not there."""
    key = problem.path.rpartition(".")[2].encode()
    found = text.find(b'"' + key + b'"') if key else -1
    return text.count(b"\n", 0, found) + 1 if found >= 0 else 1
