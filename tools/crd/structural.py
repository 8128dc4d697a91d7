"""Make a structural schema, which an API server accepts, from the JSON schema of a type.

Pure. Called by tools/crdgen.py. What has no structural form raises TypeError: the type must then be written
in another way.
"""

from collections.abc import Mapping
from typing import Any

from kvtune_api.rules import RULES_KEY

Schema = dict[str, Any]

_PLAIN_KEYS = (
    "type", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip


class Absent:
    """No default: the field stays out of the object where it is not written."""


ABSENT = Absent()


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Return the structural schema of a JSON schema: references inlined, null meaning absent."""
    whole = _resolved(schema, definitions)
    if "anyOf" in whole:
        return _some(whole, definitions)
    if "const" in whole:
        whole["enum"] = [whole.pop("const")]
    made: Schema = {}
    if description := whole.get("description"):
        made["description"] = one_paragraph(description)
    made |= {key: whole[key] for key in _PLAIN_KEYS if key in whole}
    made |= _bounds(whole)
    made |= _content(whole, definitions)
    if rules := [*(whole.get(RULES_KEY) or ()), *_fractions(made)]:
        made[RULES_KEY] = rules
    elif "pattern" in whole:
        made["pattern"] = whole["pattern"]
    if "type" not in made or {"propertyNames", "patternProperties", "oneOf", "allOf"} & set(whole):
        raise TypeError(f"no structural form for {dict(schema)!r}")
    default = defaulted(made, whole.get("default"))
    if default is not ABSENT:
        made["default"] = default
    return made


def one_paragraph(text: str) -> str:
    """Return the text with one space between words, and blank lines kept out."""
    return " ".join(text.split())


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """The schema with what it refers to; what stands beside the reference wins, rules add up."""
    beside = dict(schema)
    reference = beside.pop("$ref", None)
    if reference is None:
        return beside
    target = _resolved(definitions[reference.rpartition("/")[2]], definitions)
    rules = [*target.get(RULES_KEY, []), *beside.get(RULES_KEY, [])]
    return {**target, **beside, RULES_KEY: rules}


def _some(whole: Schema, definitions: Mapping[str, Any]) -> Schema:
    """An optional value: the one alternative that is not null, with the field's own description."""
    choices = [choice for choice in whole["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1:
        raise TypeError(f"a union has no structural form: {whole['anyOf']!r}")
    beside = {key: value for key, value in whole.items() if key not in ("anyOf", "title")}
    if beside.get("default") is None:
        beside.pop("default", None)
    rules = [*choices[0].get(RULES_KEY, []), *beside.pop(RULES_KEY, [])]
    return structural({**choices[0], **beside, RULES_KEY: rules}, definitions)


def _bounds(whole: Schema) -> Schema:
    """Exclusive bounds as an API server writes them: a bound and a truth value."""
    made: Schema = {}
    for side in ("Minimum", "Maximum"):
        if (bound := whole.get(f"exclusive{side}")) is not None:
            made |= {side.lower(): bound, f"exclusive{side}": True}
    return made


def _fractions(made: Schema) -> list[dict[str, str]]:
    """A rule for a least value with a fraction: to a whole number an API server applies it cut off.

    Tried with 1.36: it takes 0 where `minimum` is 0.001. Greatest values are only made smaller by it.
    The words are without the value, of which a server says itself: text made of a number has no bound, which
    the cost of a rule must have.
    """
    low = made.get("minimum")
    if not isinstance(low, float) or low.is_integer():
        return []
    sign, words = (">", "not greater than") if made.get("exclusiveMinimum") else (">=", "less than")
    return [{"rule": f"self {sign} {low!r}", "messageExpression": f"'is {words} {low!r}'"}]


def _content(whole: Schema, definitions: Mapping[str, Any]) -> Schema:
    """What is inside: fields, items, or values of a map."""
    made: Schema = {}
    if required := whole.get("required"):
        made["required"] = list(required)
    if "properties" in whole:
        made["properties"] = {
            name: structural(field, definitions) for name, field in whole["properties"].items()
        }
    if isinstance(values := whole.get("additionalProperties"), dict):
        made["additionalProperties"] = structural(values, definitions)
    if (items := whole.get("items") or _alike(whole.get("prefixItems"))) is not None:
        made["items"] = _item(items, definitions)
    return made


def _alike(items: list[Any] | None) -> Any:
    """The one schema of a tuple's places. CRDs know no tuples of different types; integers are numbers."""
    if items is None:
        return None
    if {item.get("type") for item in items} - {"number", "integer"}:
        raise TypeError(f"a tuple of these has no structural form: {items!r}")
    return {"type": "number"}


def _item(items: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    nullable = any(choice.get("type") == "null" for choice in items.get("anyOf", ()))
    made = structural(items, definitions)
    return {**made, "nullable": True} if nullable else made


# Defaults


def defaulted(made: Schema, default: object) -> object:
    """The default as an API server applies it, or ABSENT where it would only add noise.

    An object's default is `{}` where the defaults of its fields make the rest; a default with nothing
    inside is left out.
    """
    match default:
        case None | [] | "":
            return ABSENT
        case dict():
            written = without_none(default)
            filled = inner_defaults(made)
            if written == filled:
                return {} if filled else ABSENT
            return {key: _tidy(value) for key, value in written.items()}
        case _:
            return _tidy(default)


def inner_defaults(made: Schema) -> dict[str, Any]:
    """What an API server makes of `{}`."""
    found: dict[str, Any] = {}
    for name, field in made.get("properties", {}).items():
        if "default" in field:
            value = field["default"]
            found[name] = {**inner_defaults(field), **value} if isinstance(value, dict) else value
    return found


def without_none(value: dict[str, Any]) -> dict[str, Any]:
    """The same plain data without what is not set: nulls, and objects and lists with nothing inside."""
    inner = {key: without_none(item) if isinstance(item, dict) else item for key, item in value.items()}
    return {key: item for key, item in inner.items() if item is not None and item not in ({}, [], "")}


def _tidy(value: Any) -> Any:
    """Whole numbers without a fraction, as YAML shows them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
