"""Numbers and switches as JSON has them: no text and no truth value stands for a number, as in a cluster."""

from typing import Annotated

from pydantic import BeforeValidator, Strict
from pydantic_core import PydanticCustomError


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise PydanticCustomError("not_a_number", "{value} is not a number", {"value": repr(value)[:40]})
    return value


NUMBER = BeforeValidator(_number)
"""Makes `int` and `float` take numbers alone (8.0 is a whole one). Stands last in an annotation: before
limits it would hide them from the JSON schema."""


def _no_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    return value


NO_NULLS = BeforeValidator(_no_nulls)
"""Makes a map read a key whose value is null as one that is not there. Stands last, as NUMBER does."""

Switch = Annotated[bool, Strict()]
"""true or false."""
