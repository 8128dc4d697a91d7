"""The one form in which commands show that they are at work: a bar on standard error, gone at the end.

Nothing is shown, and nothing imported for it, where standard error is no terminal or the work is short.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kvtune_cli.clock import monotonic

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

SHORT_SECONDS = 0.5
"""A person takes so much for no time; importing the library that draws takes a part of it."""


class Advance(Protocol):
    """Takes how much is done, and of how much where that has changed."""

    def __call__(self, done: float, of: float | None = None) -> None:
        """Show it."""


@contextmanager
def progress_bar(doing: str, of: float | None = None) -> Iterator[Advance]:
    """A bar from the start on; it only moves until it is told how much is done, and of how much."""
    bar = _Bar(doing, of)
    shown = sys.stderr.isatty()
    if shown:
        bar.show(0.0, of)
    with bar:
        yield bar.show if shown else _nothing


@contextmanager
def late_bar(doing: str, of: float) -> Iterator[Advance]:
    """A bar for work that may be short and tells often how much is done: shown once it takes long."""
    bar, begun_s, shown = _Bar(doing, of), monotonic(), sys.stderr.isatty()

    def advance(done: float, of: float | None = None) -> None:
        if shown and monotonic() - begun_s > SHORT_SECONDS:
            bar.show(done, of)

    with bar:
        yield advance


def _nothing(done: float, of: float | None = None) -> None:
    """Show nothing."""


class _Bar:
    """Is drawn from the first time that it is shown."""

    def __init__(self, doing: str, of: float | None) -> None:
        self._doing = doing
        self._of = of
        self._drawn: RichProgress | None = None

    def show(self, done: float, of: float | None = None) -> None:
        if self._drawn is None:
            self._drawn = _begun(self._doing, self._of)
        self._drawn.update(self._drawn.task_ids[0], completed=done, total=self._of if of is None else of)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()


def _begun(doing: str, of: float | None) -> "RichProgress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    drawn = Progress(TextColumn("{task.description}"), *columns, console=Console(stderr=True), transient=True)
    drawn.add_task(doing, total=of)
    drawn.start()
    return drawn
