"""Read a trace for the commands that serve its requests: notes on stderr, one line where it is bad."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_api.errors import Unavailable
from kvtune_cli.exits import ExitCode
from kvtune_cli.output import one_line, tell
from kvtune_cli.progress import late_bar

if TYPE_CHECKING:
    from kvtune_cache.requests import Requests
    from kvtune_lab.readers.loaded import Loaded

SkipBad = Annotated[
    int, typer.Option("--skip-bad", min=0, metavar="N", help="Leave out up to so many bad rows.")
]
SessionStarts = Annotated[
    Path | None, typer.Option("--session-starts", help="When the sessions of an agentic trace start.")
]


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that has been read, and its file."""

    path: Path
    loaded: "Loaded"

    @property
    def requests(self) -> "Requests":
        """The requests, as arrays."""
        return self.loaded.requests

    @property
    def block_tokens(self) -> int:
        """Tokens of a full block."""
        return self.loaded.block_tokens

    @property
    def distinct_blocks(self) -> int:
        """Distinct blocks."""
        return self.loaded.distinct_blocks


@contextmanager
def telling_bad_traces(path: Path) -> Iterator[None]:
    """End the command with one line where a trace is bad; raise `Unavailable` where it cannot be read."""
    from kvtune_lab.readers.errors import TraceError

    try:
        yield
    except TraceError as error:
        tell(f"kvtune: {one_line(str(error))}")
        raise typer.Exit(ExitCode.USAGE) from error
    except OSError as error:
        raise Unavailable(f"{error.filename or path}: {error.strerror or error}") from error


def read_trace(path: Path, *, skip_bad: int = 0, session_starts: Path | None = None) -> Trace:
    """Read a trace; ends the command where it is bad, raises `Unavailable` where it cannot be read."""
    from kvtune_lab.readers.errors import TraceError, bad_rows
    from kvtune_lab.readers.load import load
    from kvtune_lab.readers.loaded import LACKS, tokens_when_warm

    with telling_bad_traces(path), late_bar("reading", 1.0) as progress:
        loaded = load(path, skip_bad=skip_bad, starts=session_starts, progress=progress)
        if not tokens_when_warm(loaded.requests):
            raise TraceError(path, 1, "file", "the last half of the requests holds no token: no hit rate")
    for note in loaded.notes:
        if note not in LACKS[loaded.format]:  # what a simulation needs is there
            tell(f"note: {note}")
    if loaded.skipped:
        tell(f"note: {bad_rows(loaded.skipped)} left out")
    return Trace(path, loaded)
