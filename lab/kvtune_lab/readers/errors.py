"""What is wrong with a trace, as file, line, field and value; and how many bad rows a reader may skip.

TraceError (a ValueError): tell the user; its text is `file:line: field: problem`. In a trace of binary
records the line is the number of the record. ArrivalsOnly: the trace is sound, but holds no blocks.
"""

from pathlib import Path


class TraceError(ValueError):
    """Tell the user what is wrong with which line of a trace; lines count from 1."""

    def __init__(self, file: Path, line: int, field: str, problem: str) -> None:
        """Name the file, the line, the field and the problem with its value."""
        super().__init__(f"{file}:{line}: {field}: {problem}")
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem


class ArrivalsOnly(TraceError):
    """Tell the user that what they want needs blocks, which this trace does not tell of."""


def bad_rows(count: int) -> str:
    """So many bad rows, in words."""
    return f"{count} bad row{'' if count == 1 else 's'}"


class Skips:
    """Counts bad rows and lets a reader go on, up to a limit."""

    def __init__(self, limit: int = 0) -> None:
        """Allow `limit` bad rows; raises ValueError for less than 0."""
        if limit < 0:
            raise ValueError(f"skip_bad: {limit} is less than 0")
        self.limit = limit
        self.skipped = 0

    def take(self, error: TraceError) -> None:
        """Count one bad row; past the limit raise its TraceError, which then says so."""
        if self.skipped == self.limit:
            if self.limit == 0:
                raise error
            past = f"{error.problem} (bad row {self.limit + 1}, where {self.limit} may be skipped)"
            raise TraceError(error.file, error.line, error.field, past) from error
        self.skipped += 1
