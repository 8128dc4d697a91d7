"""How commands speak: results to stdout, everything else to stderr, JSON without NaN."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvtune_api.errors import KvtuneError, Problem, SpecError, Unavailable
from kvtune_api.finite import finite
from kvtune_cli.policies import InvalidPolicy
from kvtune_lab.whole_files import replacing

STDOUT = Path("-")
"""As a target, the standard output."""


def say(text: str) -> None:
    """A line of result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """A line for the person, beside the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(data: Any) -> None:
    """Plain data as JSON."""
    say(_json(data))


def put_json(target: Path, data: Any) -> None:
    """Plain data as JSON, to a file, or to stdout where the target is `-`; raises `Unavailable`."""
    if target == STDOUT:
        say_json(data)
        return
    with writing(target), replacing(target) as file:
        file.write(f"{_json(data)}\n".encode())


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Name the file that cannot be written in the one line that says so, as `Unavailable`."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{target}: {error.strerror or error}") from error


def _json(data: Any) -> str:
    """A name of a file that is no UTF-8 has its odd bytes as escapes of JSON."""
    text = json.dumps(finite(data), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode()


def tell_error(error: KvtuneError) -> None:
    """An error: one line, or one line for each problem of a document."""
    who = f"kvtune: {error.file}" if isinstance(error, InvalidPolicy) else "kvtune"
    if not isinstance(error, SpecError) or len(error.problems) == 1:
        tell(f"{who}: {one_line(str(error))}")
        return
    tell(f"{who}: {len(error.problems)} problems")
    for problem in error.problems:
        tell(f"  {one_line(str(problem))}")


def problem_data(problem: Problem) -> dict[str, object]:
    """Plain data of a problem."""
    return {"path": problem.path, "line": problem.line, "message": problem.message}


def one_line(text: str) -> str:
    """The same text without line breaks."""
    return " ".join(text.split())
