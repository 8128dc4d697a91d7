"""Numbers and switches as JSON has them: no text and no truth value stands for a number, as in a cluster."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Strict
from pydantic_core import PydanticCustomError


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise PydanticCustomError("not_a_number", "{value} is not a number", {"value": repr(value)[:40]})
    return value


Number = Annotated[float, BeforeValidator(_number)]
"""A number, finite."""

Whole = Annotated[int, BeforeValidator(_number)]
"""A whole number; 8.0 is one too."""

Switch = Annotated[bool, Strict()]
"""true or false."""


def without_nulls(data: Any) -> Any:
    """Plain data without fields that are null: in a policy they are not set, as an API server reads them."""
    match data:
        case dict():
            return {key: without_nulls(value) for key, value in data.items() if value is not None}
        case list():
            return [without_nulls(item) for item in data]
    return data
