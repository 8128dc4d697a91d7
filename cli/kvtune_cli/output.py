"""How commands speak: results to stdout, everything else to stderr, JSON without NaN."""

import json
import sys
from typing import Any

from kvtune_api.codec import finite
from kvtune_api.errors import KvtuneError, Problem, SpecError
from kvtune_cli.policies import InvalidPolicy


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
    say(json.dumps(finite(data), indent=2, ensure_ascii=False, allow_nan=False))


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
