"""Read experiments as `kubectl get kvx -o json|yaml` prints them, or as a state directory has them.

Raises `Corrupt` with the line and the field of what is wrong first. An object of an API server may have
fields that this version does not know; a file of our own may not.
"""

from pathlib import Path
from typing import Any

import yaml

from kvtune_api.codec import parse, parse_known
from kvtune_api.errors import Corrupt, Problem, SpecError
from kvtune_api.experiment import KVCacheExperiment
from kvtune_operator.lines import expanded_size, line_of, root_of
from kvtune_operator.storage import plain, read_text

SIZE_LIMIT = 64 << 20
"""Characters of a text: some hundred full ledgers."""


def read_experiments(path: Path) -> tuple[KVCacheExperiment, ...]:
    """The experiments of a file; none when there is no such file. Raises `Corrupt` or `Unavailable`."""
    text = read_text(path)
    return () if text is None else experiments_in(text, str(path))


def experiments_in(text: str, where: str) -> tuple[KVCacheExperiment, ...]:
    """The experiments of a JSON or YAML text; `where` names it in errors."""
    if len(text) > SIZE_LIMIT:
        raise Corrupt(f"{where}: more than {SIZE_LIMIT} characters")
    documents = [plain(text, where)] if text.lstrip()[:1] in ("{", "[", "") else _yaml(text, where)
    found = []
    for document in documents:
        listed = isinstance(document, dict) and isinstance(document.get("items"), list)
        for index, item in enumerate(document["items"] if listed else [document]):
            try:
                found.append(_experiment(item))
            except SpecError as error:
                place = _placed(error.problems[0], f"items[{index}]" if listed else "")
                line = (line_of(root_of(text), place.path) if len(documents) == 1 else None) or 1
                raise Corrupt(f"{where} line {line}: {place}") from error
    return tuple(found)


def _experiment(item: Any) -> KVCacheExperiment:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if isinstance(metadata, dict) and "uid" in metadata:  # only an API server gives one
        return parse_known(KVCacheExperiment, item)
    return parse(KVCacheExperiment, item)


def _placed(problem: Problem, root: str) -> Problem:
    return Problem(".".join(part for part in (root, problem.path) if part), problem.message)


def _yaml(text: str, where: str) -> list[Any]:
    try:
        roots = [node for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) if node is not None]
        if any(expanded_size(root) > SIZE_LIMIT for root in roots):
            raise Corrupt(f"{where} line 1: its YAML aliases expand to more than {SIZE_LIMIT} characters")
        return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Corrupt(f"{where} line {line}: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise Corrupt(f"{where} line 1: cannot be read as YAML: {error}") from error
