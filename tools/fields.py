"""Say in words what the types of `api/` allow, field by field.

Called by the generators of this folder. A field's text is its docstring, so a new field needs
no change here.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import annotated_types
from pydantic_core import PydanticUndefined

from kvtune_api.codec import camel
from kvtune_api.knobs import CacheConfig
from kvtune_api.units import Duration, PositiveDuration, PositiveQuantity, Quantity

NOT_SET = "—"
CHOICES_SHOWN = 5
"""A longer choice is named by its type, and listed once elsewhere."""
SCALARS: Mapping[object, str] = {
    Duration: "duration",
    Quantity: "quantity",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    datetime: "timestamp",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One field as a reader of YAML sees it."""

    path: str
    kind: str
    default: str
    limits: str
    meaning: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What an annotation allows: the kind of value, its limits, and the type of the fields inside, if any."""

    kind: str
    limits: tuple[str, ...] = ()
    inside: type | None = None
    mark: str = ""
    """What a path shows for a value with several items: `[]` for a list, `.*` for a map."""


# From annotations to forms


def form(annotation: Any) -> Form:
    """Return what an annotation allows. Raise TypeError for one that is new here."""
    if annotation in (PositiveDuration, PositiveQuantity):
        return Form(kind=SCALARS[typing.get_args(annotation)[0]], limits=("> 0",))
    if annotation in SCALARS:
        return Form(kind=SCALARS[annotation])
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        plain = form(args[0])
        return dataclasses.replace(plain, limits=(*_limits(args[1:], plain), *plain.limits))
    if origin in (typing.Union, types.UnionType):
        [some] = [arg for arg in args if arg is not type(None)]
        return form(some)
    if origin is typing.Literal:
        return Form(kind=" or ".join(f"`{arg}`" for arg in args))
    if origin in (tuple, list):
        item = form(args[0])
        return Form(
            kind=f"list of {item.kind}", limits=_each(item), inside=item.inside, mark="[]" + item.mark
        )
    if origin in (dict, Mapping):
        item = form(args[1])
        return Form(kind=f"map to {item.kind}", limits=_each(item), inside=item.inside, mark=".*" + item.mark)
    if annotation is CacheConfig:
        return Form(kind="configuration")
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return Form(kind=_choice(annotation))
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return Form(kind="object", inside=annotation)
    raise TypeError(f"no words for the annotation {annotation!r}; add them to form() in tools/fields.py")


def _choice(members: type[StrEnum]) -> str:
    if len(members) > CHOICES_SHOWN:
        return f"one of {members.__name__}"
    return "one of " + ", ".join(f"`{member}`" for member in members)


def _each(item: Form) -> tuple[str, ...]:
    return (f"each {', '.join(item.limits)}",) if item.limits else ()


def _limits(metadata: tuple[Any, ...], plain: Form) -> Iterator[str]:
    noun = "items" if plain.mark else "characters"
    for item in _flat(metadata):
        match item:
            case annotated_types.Gt(gt=bound):
                yield f"> {bound}"
            case annotated_types.Ge(ge=bound):
                yield f">= {bound}"
            case annotated_types.Lt(lt=bound):
                yield f"< {bound}"
            case annotated_types.Le(le=bound):
                yield f"<= {bound}"
            case annotated_types.MinLen(min_length=bound):
                yield f"at least {bound} {noun}"
            case annotated_types.MaxLen(max_length=bound):
                yield f"at most {bound} {noun}"
            case _:
                if pattern := getattr(item, "pattern", None):
                    yield f"matches `{pattern}`"


def _flat(metadata: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the constraints, those inside a pydantic Field in their order too."""
    for item in metadata:
        yield from getattr(item, "metadata", (item,))


# From types to rows


def rows(cls: type, prefix: str = "", chosen: object = None) -> Iterator[Row]:
    """Yield every field of a type, depth first. `chosen` is the object that stands where none is written."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = cls.__pydantic_fields__  # type: ignore[attr-defined]  # every api type has it
    for name, field in fields.items():
        allowed = form(hints[name])
        default = (
            getattr(chosen, name) if chosen is not None else field.get_default(call_default_factory=True)
        )
        path = f"{prefix}{camel(name)}"
        yield Row(
            path=path,
            kind=allowed.kind,
            default=_default(default),
            limits=", ".join(allowed.limits),
            meaning=one_line(field.description or ""),
        )
        if allowed.inside is not None:
            stands = default if isinstance(default, allowed.inside) else None
            yield from rows(allowed.inside, f"{path}{allowed.mark}.", stands)


def _default(value: object) -> str:
    match value:
        case _ if value is PydanticUndefined:
            return "required"
        case None:
            return NOT_SET
        case bool():
            return f"`{str(value).lower()}`"
        case () | []:
            return "`[]`"
        case _ if dataclasses.is_dataclass(value):
            return ""
        case _:
            return f"`{value}`"


def one_line(text: str) -> str:
    """Return the text without line breaks."""
    return " ".join(text.split())
