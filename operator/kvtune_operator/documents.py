"""Read a policy as a user wrote it, in YAML or JSON, and say everything that is wrong at once, with lines.

What the types allow but a platform engineer would want to know is in advice.py.
"""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kvtune_api.codec import parse
from kvtune_api.errors import Corrupt, Problem, SpecError
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.lines import duplicate_keys, expanded_size, line_of
from kvtune_operator.storage import plain

SIZE_LIMIT_BYTES = 1 << 20
EXPANDED_LIMIT = 4 << 20
DEPTH_LIMIT = 50

NULL_TAG = "tag:yaml.org,2002:null"
"""Of `null`, `~` and the like: a document that says so says nothing."""


def read_policy(path: Path) -> KVCachePolicy:
    """Read the one policy of a file; raise `SpecError` with every problem, its path and its line."""
    return policy_in(_text(path))


def policy_in(text: str) -> KVCachePolicy:
    """Read the one policy of a YAML or JSON text; raise `SpecError` as `read_policy` does."""
    is_json = text.lstrip().startswith("{")
    if is_json:
        text = text.replace("\t", " ")
    root = _only_document(text)
    twice = [Problem("", f"{key} stands twice", line) for key, line in duplicate_keys(root)]
    if twice:
        raise SpecError(*twice)
    data = _json(text) if is_json else _constructed(text)
    if trouble := _not_ours(data, root):
        raise SpecError(trouble)
    try:
        return parse(KVCachePolicy, data)
    except SpecError as error:
        raise SpecError(*(_with_line(problem, root) for problem in error.problems)) from error


def _text(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise SpecError(Problem("", f"{path}: is not a file that can be read whole"))
        size = found.st_size
        if size > SIZE_LIMIT_BYTES:
            raise SpecError(Problem("", f"{path}: {size} bytes, at most {SIZE_LIMIT_BYTES} are read"))
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SpecError(Problem("", f"{path}: not UTF-8 text", line)) from error
    except OSError as error:
        raise SpecError(Problem("", f"{path}: {error.strerror or error}")) from error


def _only_document(text: str) -> yaml.Node:
    try:
        _check_shape(text)
        documents = [node for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) if not _is_empty(node)]
    except yaml.MarkedYAMLError as error:
        raise SpecError(_syntax(error, text)) from error
    except yaml.YAMLError as error:
        raise SpecError(Problem("", f"cannot be read as YAML: {' '.join(str(error).split())}")) from error
    if not documents:
        raise SpecError(Problem("", "the file holds no document, a KVCachePolicy is needed", 1))
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1
        raise SpecError(Problem("", f"{len(documents)} documents, exactly one KVCachePolicy is needed", line))
    if expanded_size(documents[0]) > EXPANDED_LIMIT:
        text = f"its YAML aliases expand to more than {EXPANDED_LIMIT} characters"
        raise SpecError(Problem("", text, documents[0].start_mark.line + 1))
    return documents[0]


def _check_shape(text: str) -> None:
    """Refuse deep nesting before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        match event:
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                depth += 1
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                depth -= 1
        if depth > DEPTH_LIMIT:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise SpecError(Problem("", f"nested more than {DEPTH_LIMIT} levels deep", line))


def _is_empty(node: yaml.Node | None) -> bool:
    if not isinstance(node, yaml.ScalarNode):
        return node is None
    return node.value == "" or node.tag == NULL_TAG


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = error.problem or error.context or "cannot be read as YAML"
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        message = "a tab stands where YAML wants spaces"
    return Problem("", message, mark.line + 1 if mark else None)


def _json(text: str) -> Any:
    try:
        return plain(text, "")
    except Corrupt as error:
        line, _, message = str(error).strip().removeprefix("line ").partition(": ")
        raise SpecError(Problem("", message, int(line))) from error


def _constructed(text: str) -> Any:
    try:
        return next(
            item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item is not None and item != ""
        )
    except yaml.MarkedYAMLError as error:
        raise SpecError(_syntax(error, text)) from error
    except (ValueError, OverflowError) as error:  # an impossible date, a number of a million digits
        raise SpecError(Problem("", f"holds a value that cannot be read: {error}")) from error


def _not_ours(data: Any, root: yaml.Node) -> Problem | None:
    line = root.start_mark.line + 1
    if not isinstance(data, dict):
        return Problem("", f"the document is a {type(data).__name__}, a KVCachePolicy is needed", line)
    kind = data.get("kind")
    if kind != "KVCachePolicy":
        found = "is required" if kind is None else f"is {kind!r}"
        return Problem("kind", f"{found}, must be 'KVCachePolicy'", line_of(root, "kind") or line)
    return None


def _with_line(problem: Problem, root: yaml.Node) -> Problem:
    return replace(problem, line=line_of(root, problem.path))
