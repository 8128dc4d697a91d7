"""Numbers that are written as numbers: neither true or false nor a text, which pydantic would take for some.

Called by the types of this room whose fields decide what an agent runs.
"""

from typing import Final

from pydantic import BeforeValidator


def _a_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


WRITTEN_AS_NUMBER: Final = BeforeValidator(_a_number)
"""The last of a type's annotations: limits that come after it would not be in the schema."""
