"""Read the operator's settings from the text of its ConfigMap. Pure.

YAML 1.1 reads `22:00` as the number 1320 and a moment as a date; here both stay the text that was written.
"""

import re
from typing import Any

import yaml

from kvtune_api.codec import parse
from kvtune_api.errors import Problem, SpecError
from kvtune_api.operator_config import OperatorConfig
from kvtune_operator.freeze import freeze_problems
from kvtune_operator.lines import duplicate_keys, expanded_size, line_of, root_of

LONGEST_TEXT = 1 << 20
EXPANDED_LIMIT = 4 << 20

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_SIXTIES = re.compile(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")


def operator_config(text: str) -> OperatorConfig:
    """The settings. Raises `SpecError` with every problem, its field and its line."""
    if len(text) > LONGEST_TEXT:
        raise SpecError(Problem("", f"{len(text)} characters are more than {LONGEST_TEXT}"))
    data, root = _plain(text)
    try:
        config = parse(OperatorConfig, {} if data is None else data)
        if problems := freeze_problems(config.freeze_windows):
            raise SpecError(*problems)
    except SpecError as error:
        placed = (Problem(item.path, item.message, line_of(root, item.path)) for item in error.problems)
        raise SpecError(*placed) from error
    return config


def _plain(text: str) -> tuple[Any, yaml.Node | None]:
    try:
        root = root_of(text)
        if root is not None and expanded_size(root) > EXPANDED_LIMIT:
            raise SpecError(Problem("", f"its YAML aliases expand to more than {EXPANDED_LIMIT} characters"))
        if root is not None and (twice := list(duplicate_keys(root))):
            raise SpecError(*(Problem("", f"{key} stands twice", line) for key, line in twice))
        return yaml.load(text, Loader=_AsWritten), root  # a SafeLoader: plain data only
    except SpecError:
        raise
    except Exception as error:  # YAML's constructors raise whatever a tag's value makes them stumble over
        raise SpecError(
            Problem("", f"cannot be read as YAML: {' '.join(str(error).split())[:200]}")
        ) from error


class _AsWritten(yaml.SafeLoader):
    """A loader that leaves times of day and moments as text."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """The tag of a node."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]  # the stubs leave it out
        is_time = kind is yaml.ScalarNode and (
            tag == _TIMESTAMP or (implicit[0] and _SIXTIES.match(value) is not None)
        )
        return self.DEFAULT_SCALAR_TAG if is_time else tag
