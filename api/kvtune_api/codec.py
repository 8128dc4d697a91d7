"""Between kvtune's types and JSON: one way in, one way out.

`frozen` makes the types of this room: pydantic dataclasses, immutable, camelCase outside, snake_case inside.
`parse` reports everything that is wrong at once, with paths as the user wrote them. No NaN or Infinity ever
leaves (`dump` writes null, and a caller that needs the reason says it in a field of its own).
"""

import hashlib
import json
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from kvtune_api.errors import Problem, SpecError
from kvtune_api.finite import finite
from kvtune_api.packing import PACK_CONTEXT

T = TypeVar("T")

_UPPER = {"ttl": "TTL", "uid": "UID", "api": "API"}


def camel(name: str) -> str:
    """The outside name of a field: `cache_ttl` -> `cacheTTL`, `policy_uid` -> `policyUID`."""
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in rest)


def _settings(extra: str) -> ConfigDict:
    return ConfigDict(
        alias_generator=camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra=extra,  # type: ignore[typeddict-item]  # a literal at both callers
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


@dataclass_transform(kw_only_default=True, frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a value type that refuses unknown fields (a document of the user, a message on the wire)."""
    made = dataclass(frozen=True, slots=True, kw_only=True, config=_settings("forbid"))(cls)
    return cast(type[T], made)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def user_written(cls: type[T]) -> type[T]:
    """Make a value type as `frozen` does, in which a field that is null is not set, as for an API server."""
    hook: object = model_validator(mode="before")(classmethod(_null_is_absent))  # type: ignore[arg-type]  # is one
    cls._null_is_absent = hook  # type: ignore[attr-defined]  # pydantic looks for it in the class
    return frozen(cls)


def _null_is_absent(cls: type, data: Any) -> Any:
    if not isinstance(data, dict) or None not in data.values():
        return data
    known = {camel(name) for name in cls.__annotations__}
    return {key: value for key, value in data.items() if value is not None or key not in known}


@lru_cache(maxsize=64)
def _adapter(cls: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, cls))


def adapter(cls: type[T]) -> TypeAdapter[T]:
    """The pydantic adapter of a type, made once."""
    return _adapter(cast(Hashable, cls))


def parse(cls: type[T], data: object, *, root: str = "") -> T:
    """Read plain data as `cls`; raise `SpecError` with every problem and its path under `root`."""
    try:
        return adapter(cls).validate_python(data)
    except ValidationError as error:
        raise SpecError(*problems(error, root)) from error


def parse_json(cls: type[T], text: str | bytes, *, root: str = "") -> T:
    """Read JSON as `cls`; raise `SpecError` as `parse` does."""
    try:
        return adapter(cls).validate_json(text)
    except ValidationError as error:
        raise SpecError(*problems(error, root)) from error


def problems(error: ValidationError, root: str = "") -> tuple[Problem, ...]:
    """Everything wrong in a pydantic error, as a user can read it."""
    found: dict[str, Problem] = {}
    for item in error.errors(include_url=False):
        path = _path(item["loc"], root)
        problem = Problem(path, _message(item))
        found.setdefault(f"{path}|{problem.message}", problem)
    return tuple(found.values())


def _path(location: tuple[int | str, ...], root: str) -> str:
    path = root
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{camel(part)}" if path else camel(part)
    return path


def _message(item: Any) -> str:
    match item["type"]:
        case "missing" | "missing_keyword_only_argument":
            return "is required"
        case "unexpected_keyword_argument" | "extra_forbidden":
            return "unknown field"
        case "dataclass_type" | "model_type":
            return f"must be an object, not {_shown(item['input'])}"
        case "value_error":
            return str(item["ctx"]["error"])
    message = str(item["msg"])
    message = message[0].lower() + message[1:]
    shown = _shown(item["input"])
    return message if shown.strip("'") in message else f"{shown}: {message}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_known(cls: type[T], data: object) -> T:
    """Read plain data as `parse` does, but leave out fields that `cls` does not know.

    For objects from an API server: it prunes by the CRD that it has, which may be a newer one.
    """
    left = data
    while True:
        try:
            return adapter(cls).validate_python(left)
        except ValidationError as error:
            foreign = [item["loc"] for item in error.errors() if item["type"] in _FOREIGN]
            if not foreign:
                raise SpecError(*problems(error)) from error
            for place in foreign:
                left = _without(left, place)


_FOREIGN = frozenset({"unexpected_keyword_argument", "extra_forbidden"})


def _without(data: Any, place: tuple[int | str, ...]) -> Any:
    """A copy of plain data without the field at `place`."""
    first, *rest = place
    if not rest:
        return {key: value for key, value in data.items() if key != first}
    if isinstance(data, dict):
        key = first if first in data else camel(str(first))
        return {**data, key: _without(data[key], tuple(rest))}
    return [_without(item, tuple(rest)) if index == first else item for index, item in enumerate(data)]


def dump(value: object, *, packed: bool = False) -> Any:
    """Plain data of a value: outside names, unset fields left out, nothing that JSON cannot say.

    `packed` writes long lists as one string, as Kubernetes objects carry them (packing.py).
    """
    plain = adapter(type(value)).dump_python(
        value, mode="json", by_alias=True, exclude_none=True, context={PACK_CONTEXT: packed}
    )
    return finite(plain)


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no blanks."""
    return json.dumps(dump(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """A short name for a value: the first 16 hex digits of the sha256 of its canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
