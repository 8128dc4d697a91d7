"""Durations and sizes as users write them: strings that know their value in base units.

`Duration` accepts what the CRD accepts (`320ms`, `90s`, `1h30m`); `Quantity` accepts Kubernetes quantities
(`8Gi`, `512Mi`, `1e9`). Both stay strings on the wire, so no reader has to guess a unit.
"""

import re
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
DURATION_MAX_LENGTH = 20
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$"
QUANTITY_MAX_LENGTH = 32
LARGEST_BYTES = 2.0**60
"""1 EiB: no tier is larger, and sums of sizes stay exact enough."""

LARGEST_SECONDS = 1e9
"""Some 30 years: times plus durations stay dates."""


_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_QUANTITY_PARTS = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(.*)$")
_DECIMAL_SUFFIX = {"": 0, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class _Written(str):
    """A string with a checked form. Subclasses give the pattern and the longest length."""

    __slots__ = ()
    pattern: str
    max_length: int
    example: str

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
        return {"type": "string", "pattern": cls.pattern, "maxLength": cls.max_length}


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

    @classmethod
    def check(cls, value: object) -> Self:
        """Return the value as a duration of at most `LARGEST_SECONDS`."""
        written = super().check(value)
        if written.seconds > LARGEST_SECONDS:
            raise _too_large(written, "duration", "1000000000s")
        return written

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return float(sum(Decimal(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(self)))

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

    @classmethod
    def check(cls, value: object) -> Self:
        """Return the value as a quantity of at most `LARGEST_BYTES`."""
        written = super().check(value)
        if written.bytes > LARGEST_BYTES:
            raise _too_large(written, "quantity", "1Ei")
        return written

    @property
    def bytes(self) -> float:
        """The size in bytes (a fraction only where the writer asked for one, as in `500m`)."""
        match = _QUANTITY_PARTS.match(self)
        assert match is not None, self
        number, suffix = Decimal(match[1]), match[2]
        if suffix in _BINARY_SUFFIX:
            return float(number * 2 ** _BINARY_SUFFIX[suffix])
        if suffix in _DECIMAL_SUFFIX:
            return float(number.scaleb(_DECIMAL_SUFFIX[suffix]))
        return float(number.scaleb(int(suffix[1:])))

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


def _positive_duration(value: Duration) -> Duration:
    if value.seconds <= 0:
        raise PydanticCustomError("not_positive", "'{value}' must be greater than 0s", {"value": str(value)})
    return value


def _positive_quantity(value: Quantity) -> Quantity:
    if value.bytes <= 0:
        raise PydanticCustomError("not_positive", "'{value}' must be greater than 0", {"value": str(value)})
    return value


PositiveDuration = Annotated[Duration, AfterValidator(_positive_duration)]
PositiveQuantity = Annotated[Quantity, AfterValidator(_positive_quantity)]
