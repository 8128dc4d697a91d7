"""One value in one file: written whole or not at all, read as what it claims to be or refused with its line.

A killed writer leaves the old file; a full disk raises `Unavailable` and leaves it, too. The text is JSON
with one list item (one row of a ledger) per line, so that a damaged place can be named.
"""

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from kvtune_api.codec import dump, parse
from kvtune_api.errors import Corrupt, SpecError, Unavailable
from kvtune_operator.lines import line_of, root_of

T = TypeVar("T")

_OPEN_LEVELS = 3
"""Mappings down to this depth get one key per line; what lies deeper stays on its item's line."""

TEMPORARY_SUFFIX = ".partial"


def write(path: Path, value: object) -> None:
    """Write a value of the vocabulary; raise `Unavailable` with the path when the disk does not take it."""
    write_text(path, text_of(dump(value)))


def write_text(path: Path, text: str) -> None:
    """Replace a file's text at once: temporary file, flush to disk, rename, flush the folder."""
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise unavailable(path, error) from error


def read(cls: type[T], path: Path) -> T | None:
    """Read a value; None when there is no such file. Raises `Corrupt` with the line, or `Unavailable`."""
    text = read_text(path)
    return None if text is None else parsed(cls, text, str(path))


def read_text(path: Path) -> str | None:
    """Read a text file; None when there is no such file. What is no plain file is `Corrupt`, never opened."""
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise Corrupt(f"{path}: is not a plain file")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Corrupt(f"{path} line {line}: not UTF-8 text") from error
    except OSError as error:
        raise unavailable(path, error) from error


def parsed(cls: type[T], text: str, where: str) -> T:
    """Read JSON text as `cls`; raise `Corrupt` with `where` and the line of what is wrong first."""
    data = plain(text, where)
    try:
        return parse(cls, data)
    except SpecError as error:
        problem = error.problems[0]
        line = line_of(root_of(text), problem.path) or 1
        raise Corrupt(f"{where} line {line}: {problem.path}: {problem.message}") from error


def plain(text: str, where: str) -> Any:
    """Read JSON text strictly: no repeated keys, no NaN. Raises `Corrupt` with the line."""
    if not text.strip():
        raise Corrupt(f"{where} line 1: the file is empty")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Corrupt(f"{where} line {error.lineno}: {error.msg}") from error
    except _RepeatedKeyError as error:
        line = _line_with(text, json.dumps(str(error)), times=2)
        raise Corrupt(f"{where} line {line}: {error} stands twice") from error
    except _ConstantError as error:
        raise Corrupt(f"{where} line {_line_with(text, str(error))}: {error} is not a number") from error
    except RecursionError as error:
        raise Corrupt(f"{where} line 1: nested too deeply") from error


def text_of(data: Any) -> str:
    """Plain data as JSON text, one list item per line."""
    return _lay_out(data, 0) + "\n"


def unavailable(path: Path, error: OSError) -> Unavailable:
    """The error that names the path and what the system said."""
    return Unavailable(f"{path}: {error.strerror or error}")


def clean(folder: Path) -> None:
    """Remove what a killed writer has left."""
    try:
        for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise unavailable(folder, error) from error


class _RepeatedKeyError(ValueError):
    """A key stands twice in one object."""


class _ConstantError(ValueError):
    """NaN or Infinity stands where a number should."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _RepeatedKeyError(key)
        made[key] = value
    return made


def _no_constant(name: str) -> float:
    raise _ConstantError(name)


def _line_with(text: str, part: str, *, times: int = 1) -> int:
    at = -1
    for _ in range(times):
        at = text.find(part, at + 1)
    return text.count("\n", 0, max(0, at)) + 1


def _lay_out(data: Any, level: int) -> str:
    indent = " " * (level + 1)
    if isinstance(data, dict) and data and level < _OPEN_LEVELS:
        items = [f"{json.dumps(key)}: {_lay_out(value, level + 1)}" for key, value in data.items()]
        return "{\n" + ",\n".join(indent + item for item in items) + "\n" + " " * level + "}"
    if isinstance(data, list) and data and level < _OPEN_LEVELS:
        items = [_compact(item) for item in data]
        return "[\n" + ",\n".join(indent + item for item in items) + "\n" + " " * level + "]"
    return _compact(data)


def _compact(data: Any) -> str:
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(", ", ": "))


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
