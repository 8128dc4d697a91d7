"""Durations and sizes as users write them: strings that know their value in base units.

`Duration` accepts what the CRD accepts (`320ms`, `90s`, `1h30m`); `Quantity` accepts Kubernetes quantities
(`8Gi`, `512Mi`, `1e9`). Both stay strings on the wire, so no reader has to guess a unit. Their forms leave
out what CEL and Python would read differently: more than six decimals, negative exponents.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kvtune_api.rules import Rule, quoted, with_rules

DURATION_PATTERN = r"^([0-9]+(\.[0-9]{1,6})?(ms|s|m|h))+$"
DURATION_MAX_LENGTH = 20
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]{1,6})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+]?[0-9]{1,2})?$"
QUANTITY_MAX_LENGTH = 32
LARGEST_BYTES = 2**60
"""1 EiB: no tier is larger, and sums of sizes stay exact enough."""

LARGEST_SECONDS = 10**9
"""Some 30 years: times plus durations stay dates."""

_COUNTABLE = (
    r"^(0*([0-9]{1,6}(\.[0-9]{1,6})?h|1?[0-9]{1,7}(\.[0-9]{1,6})?m|"
    r"1?[0-9]{1,9}(\.[0-9]{1,6})?s|1?[0-9]{1,12}(\.[0-9]{1,6})?ms))+$"
)
"""Durations of which CEL's `duration()` makes nanoseconds in 63 bits, whatever 20 characters hold. No part
that does not match is within `LARGEST_SECONDS`."""

_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_NANOSECONDS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_QUANTITY_PARTS = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(.*)$")
_DECIMAL_SUFFIX = {"": 0, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class _Written(str):
    """A string with a checked form. Subclasses give the pattern, the longest length and the largest value."""

    __slots__ = ()
    pattern: str
    max_length: int
    example: str
    largest: str
    comparable_form: str
    """CEL for `comparable`, with %(value)s."""

    less_form: str
    """CEL for `less`, with %(value)s and %(other)s."""

    @classmethod
    def check(cls, value: object) -> Self:
        """Return the value as this type, or raise with the form that is expected."""
        if not isinstance(value, str):
            raise PydanticCustomError(
                "written_form",
                "{value} is not a {name} such as {example}",
                {"value": repr(value)[:40], "name": cls.__name__.lower(), "example": cls.example},
            )
        if len(value) > cls.max_length:
            raise PydanticCustomError(
                "written_length",
                "'{value}' has {length} characters, at most {limit} are allowed",
                {"value": value[:40], "length": len(value), "limit": cls.max_length},
            )
        if re.fullmatch(cls.pattern, value) is None:
            raise PydanticCustomError(
                "written_form",
                "'{value}' is not a {name} such as {example}",
                {"value": value, "name": cls.__name__.lower(), "example": cls.example},
            )
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.check, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        name = cls.__name__.lower()
        formed = f"self.matches({quoted(cls.pattern)})"
        small = f"{cls.comparable('self')} && !({cls.less(quoted(cls.largest), 'self')})"
        return with_rules(
            {"type": "string", "pattern": cls.pattern, "maxLength": cls.max_length},
            Rule(holds=formed, message=_says(f"is not a {name} such as {cls.example}")),
            Rule(
                holds=f"!{formed} || ({small})",
                message=_says(f"is more than the largest {name} allowed, {cls.largest}"),
            ),
        )

    @classmethod
    def comparable(cls, value: str) -> str:
        """CEL that is true where the expression `value` can be compared."""
        return cls.comparable_form % {"value": value}

    @classmethod
    def less(cls, value: str, other: str) -> str:
        """CEL that is true where one expression is less than the other; both must be comparable."""
        return cls.less_form % {"value": value, "other": other}


def _says(words: str) -> str:
    """CEL for the value in quotes and some words."""
    return f'"\'" + self + {quoted(f"{chr(39)} {words}")}'


def _too_large(value: str, name: str, limit: str) -> PydanticCustomError:
    return PydanticCustomError(
        "written_size",
        "'{value}' is more than the largest {name} allowed, {limit}",
        {"value": value, "name": name, "limit": limit},
    )


class Duration(_Written):
    """A length of time as written: `320ms`, `90s`, `5m`, `1h30m`."""

    __slots__ = ()
    pattern = DURATION_PATTERN
    max_length = DURATION_MAX_LENGTH
    example = "'90s', '5m' or '320ms'"
    largest = f"{LARGEST_SECONDS}s"
    comparable_form = f"%(value)s.matches({quoted(_COUNTABLE)})"
    less_form = "duration(%(value)s) < duration(%(other)s)"

    @classmethod
    def check(cls, value: object) -> Self:
        """Return the value as a duration of at most `LARGEST_SECONDS`."""
        written = super().check(value)
        if written.nanoseconds > LARGEST_SECONDS * 10**9:
            raise _too_large(written, "duration", cls.largest)
        return written

    @property
    def nanoseconds(self) -> int:
        """The length in nanoseconds, exactly (a form allows no finer one)."""
        return _nanoseconds(self)

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.nanoseconds / 10**9

    @classmethod
    def of(cls, seconds: float) -> "Duration":
        """Write a number of seconds (>= 0), rounded to the millisecond."""
        milliseconds = round(seconds * 1000)
        if milliseconds < 0:
            raise ValueError(f"duration: {seconds} is less than 0")
        return cls(f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms")


class Quantity(_Written):
    """A size as Kubernetes writes it: `8Gi`, `512Mi`, `1e9`. Base unit: bytes."""

    __slots__ = ()
    pattern = QUANTITY_PATTERN
    max_length = QUANTITY_MAX_LENGTH
    example = "'8Gi' or '512Mi'"
    largest = "1Ei"
    comparable_form = f"(%(value)s.matches({quoted(QUANTITY_PATTERN)}) && isQuantity(%(value)s))"
    less_form = "quantity(%(value)s).isLessThan(quantity(%(other)s))"

    @classmethod
    def check(cls, value: object) -> Self:
        """Return the value as a quantity of at most `LARGEST_BYTES`."""
        written = super().check(value)
        if written.exact_bytes > LARGEST_BYTES:
            raise _too_large(written, "quantity", cls.largest)
        return written

    @property
    def exact_bytes(self) -> Decimal:
        """The size in bytes, with the fraction that was written (`500m` is half a byte)."""
        return _exact_bytes(self)

    @property
    def bytes(self) -> float:
        """The size in bytes."""
        return float(self.exact_bytes)

    @property
    def gib(self) -> float:
        """The size in GiB."""
        return self.bytes / 2**30

    @classmethod
    def of(cls, size_bytes: float) -> "Quantity":
        """Write a number of bytes (>= 0) with the largest binary suffix that keeps it exact."""
        whole = round(size_bytes)
        if whole < 0:
            raise ValueError(f"quantity: {size_bytes} is less than 0")
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if whole and whole % 2 ** _BINARY_SUFFIX[suffix] == 0:
                return cls(f"{whole // 2 ** _BINARY_SUFFIX[suffix]}{suffix}")
        return cls(str(whole))


@lru_cache(maxsize=1024)
def _nanoseconds(written: str) -> int:
    """The length of a duration; kept, for the agents of a fleet all say the same few."""
    return int(sum(Decimal(n) * _NANOSECONDS[unit] for n, unit in _DURATION_PART.findall(written)))


@lru_cache(maxsize=1024)
def _exact_bytes(written: str) -> Decimal:
    match = _QUANTITY_PARTS.match(written)
    assert match is not None, written
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _BINARY_SUFFIX:
        return number * (1 << _BINARY_SUFFIX[suffix])
    if suffix in _DECIMAL_SUFFIX:
        return number.scaleb(_DECIMAL_SUFFIX[suffix])
    return number.scaleb(int(suffix[1:]))


def _positive_duration(value: Duration) -> Duration:
    if value.nanoseconds <= 0:
        raise PydanticCustomError("not_positive", "'{value}' must be greater than 0s", {"value": str(value)})
    return value


def _positive_quantity(value: Quantity) -> Quantity:
    if value.exact_bytes <= 0:
        raise PydanticCustomError("not_positive", "'{value}' must be greater than 0", {"value": str(value)})
    return value


PositiveDuration = Annotated[
    Duration,
    AfterValidator(_positive_duration),
    Rule(
        holds=f"!{Duration.comparable('self')} || {Duration.less(quoted('0s'), 'self')}",
        message=_says("must be greater than 0s"),
    ),
]
PositiveQuantity = Annotated[
    Quantity,
    AfterValidator(_positive_quantity),
    Rule(
        holds=f"!{Quantity.comparable('self')} || {Quantity.less(quoted('0'), 'self')}",
        message=_says("must be greater than 0"),
    ),
]
