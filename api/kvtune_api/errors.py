"""The errors of kvtune, named by what the caller should do.

    KvtuneError
    +-- SpecError     tell the user: what they wrote is wrong (all problems at once, each with its field path)
    +-- Unavailable   try later: a port (agent, metrics, store) did not answer or answered nonsense
    |   +-- Forbidden tell the user, too: a right that we lack will not come by itself
    +-- Conflict      re-read and recompute: somebody else wrote the object first
    +-- Corrupt       tell the user, never guess: a stored file cannot be read as what it claims to be

Anything else that is raised is a bug.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document: the field's path as the user wrote it, and what is wrong with it."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class KvtuneError(Exception):
    """Any error that kvtune raises on purpose."""


class SpecError(KvtuneError):
    """Say that what the user wrote is wrong. `problems` holds everything wrong at once."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class Unavailable(KvtuneError):
    """Say that a port failed; the next tick tries again."""


class Forbidden(Unavailable):
    """Say which right is lacking; until somebody gives it every try fails."""


class Conflict(KvtuneError):
    """Say that an object was changed by another writer since it was read."""


class Corrupt(KvtuneError):
    """Say that a stored file is not what it claims to be, with the line where that shows."""
