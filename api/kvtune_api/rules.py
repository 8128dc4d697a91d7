"""Rules of a type that an API server checks too: CEL beside the Python validator that refuses the same.

A `Rule` changes nothing in Python. It travels in the type's JSON schema into the CRD (tools/crdgen.py), where
`kubectl apply` meets it, and stands next to the validator whose words it repeats. `Form` is both.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")

RULES_KEY = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule in CEL. In an annotation it is a rule of that value: `Annotated[str, Rule(...)]`."""

    holds: str
    """True where the value is allowed. Must evaluate on every value: also where another rule refuses it, and
    before an API server fills in defaults."""

    message: str
    """CEL that makes the text of the refusal, with the value and the limit."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return with_rules(handler(schema), self)


def ruled(*rules: Rule) -> Callable[[type[T]], type[T]]:
    """Give a type rules of the whole object. Stands below `frozen`, which makes the type."""

    def mark(cls: type[T]) -> type[T]:
        def json_schema(schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
            found = handler(schema)
            with_rules(handler.resolve_ref_schema(found), *rules)
            return found

        cls.__get_pydantic_json_schema__ = json_schema  # type: ignore[attr-defined]  # pydantic's own hook
        return cls

    return mark


def with_rules(found: dict[str, Any], *rules: Rule) -> dict[str, Any]:
    """The same JSON schema with more rules; a rule that it has is not added again."""
    entries = [{"rule": rule.holds, "messageExpression": rule.message} for rule in rules]
    held = found.get(RULES_KEY, [])
    found[RULES_KEY] = [*held, *(entry for entry in entries if entry not in held)]
    return found


def quoted(text: str) -> str:
    """A text as CEL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a string, and what it is called: refused alike by Python and by an API server.

    The pattern is read by RE2 there and by `re` here: keep to ASCII classes, no `\\s`, `\\d`, `\\w` or `\\b`.
    """

    pattern: str
    words: str
    """Such as `an address such as http://host:9000`."""

    def check(self, value: str) -> str:
        """Return a value of this form. Raises a pydantic error with the words."""
        if re.fullmatch(self.pattern, value) is None:
            text = "'{value}' is not {words}"
            raise PydanticCustomError("written_form", text, {"value": value[:80], "words": self.words})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        rule = Rule(
            holds=f"self.matches({quoted(self.pattern)})",
            message=f'"\'" + self + {quoted(f"{chr(39)} is not {self.words}")}',
        )
        return {**with_rules(handler(schema), rule), "pattern": self.pattern}
