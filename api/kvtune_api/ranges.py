"""Ranges that users give: of a knob that may be tuned, and of a length that the control plane chooses.

A knob whose values are names has `PolicyChoices` in place of a range.
"""

from decimal import Decimal
from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import user_written
from kvtune_api.knobs import EvictionPolicy, StoreThreshold
from kvtune_api.rules import Rule, ruled
from kvtune_api.scalars import NUMBER
from kvtune_api.units import Duration, PositiveDuration, PositiveQuantity, Quantity

Step = Annotated[float, Field(gt=1, le=64), NUMBER]
Ratio = Annotated[float, Field(gt=0, le=1), NUMBER]
Count = Annotated[StoreThreshold, NUMBER]


def _grows(low: str, *, when: str = "true") -> Rule:
    """Min is at most max. `low` is CEL for max < min; `when` guards it."""
    return Rule(
        holds=f"!({when}) || !({low})",
        message="'min %s is greater than max %s'.format([self.min, self.max])",
    )


def _starts_inside(below: str, above: str, *, when: str = "true") -> Rule:
    """Start, where it is set, is between min and max. `below` and `above` are CEL, guarded by `when`."""
    return Rule(
        holds=f"!has(self.start) || !({when}) || (!({below}) && !({above}))",
        message="'start %s is outside %s to %s'.format([self.start, self.min, self.max])",
    )


def _rules_of(unit: type[Duration] | type[Quantity]) -> tuple[Rule, Rule]:
    low, high, start = "self.min", "self.max", "self.start"
    bounds = f"{unit.comparable(low)} && {unit.comparable(high)}"
    return (
        _grows(unit.less(high, low), when=bounds),
        _starts_inside(
            unit.less(start, low), unit.less(high, start), when=f"{bounds} && {unit.comparable(start)}"
        ),
    )


@user_written
@ruled(*_rules_of(Duration))
class DurationRange:
    """The range in which a duration may be tuned."""

    min: PositiveDuration
    """Never below this."""

    max: PositiveDuration
    """Never above this."""

    start: PositiveDuration | None = None
    """Where to begin; without it, what the agents report."""

    largest_step: Step = 2.0
    """No experiment changes the knob by more than this factor."""

    @model_validator(mode="after")
    def _inside(self) -> "DurationRange":
        check_range(
            self.min.nanoseconds,
            self.max.nanoseconds,
            self.start.nanoseconds if self.start else None,
            (self.min, self.max, self.start),
        )
        return self


@user_written
@ruled(_grows("self.max < self.min"), _starts_inside("self.start < self.min", "self.max < self.start"))
class RatioRange:
    """The range in which a ratio may be tuned."""

    min: Ratio
    """Never below this."""

    max: Ratio
    """Never above this."""

    start: Ratio | None = None
    """Where to begin; without it, what the agents report."""

    largest_step: Step = 2.0
    """No experiment changes the knob by more than this factor."""

    @model_validator(mode="after")
    def _inside(self) -> "RatioRange":
        check_range(self.min, self.max, self.start, (self.min, self.max, self.start))
        return self


@user_written
@ruled(*_rules_of(Quantity))
class QuantityRange:
    """The range in which a size may be tuned."""

    min: PositiveQuantity
    """Never below this."""

    max: PositiveQuantity
    """Never above this."""

    start: PositiveQuantity | None = None
    """Where to begin; without it, what the agents report."""

    largest_step: Step = 2.0
    """No experiment changes the knob by more than this factor."""

    @model_validator(mode="after")
    def _inside(self) -> "QuantityRange":
        check_range(
            self.min.exact_bytes,
            self.max.exact_bytes,
            self.start.exact_bytes if self.start else None,
            (self.min, self.max, self.start),
        )
        return self


@user_written
@ruled(_grows("self.max < self.min"), _starts_inside("self.start < self.min", "self.max < self.start"))
class CountRange:
    """The range in which a whole number may be tuned."""

    min: Count
    """Never below this."""

    max: Count
    """Never above this."""

    start: Count | None = None
    """Where to begin; without it, what the agents report."""

    largest_step: Step = 2.0
    """No experiment changes the knob by more than this factor."""

    @model_validator(mode="after")
    def _inside(self) -> "CountRange":
        check_range(self.min, self.max, self.start, (self.min, self.max, self.start))
        return self


@user_written
@ruled(
    Rule(
        holds="self.choices.all(one, self.choices.exists_one(other, other == one))",
        message="'choices %s: one of them stands there twice'.format([self.choices])",
    ),
    Rule(
        holds="!has(self.start) || self.start in self.choices",
        message="'start %s is not among the choices %s'.format([self.start, self.choices])",
    ),
)
class PolicyChoices:
    """The eviction policies that may be tried."""

    choices: Annotated[tuple[EvictionPolicy, ...], Field(min_length=1, max_length=len(EvictionPolicy))]
    """Which ones, in the order in which they are tried."""

    start: EvictionPolicy | None = None
    """Where to begin; without it, what the agents report."""

    @model_validator(mode="after")
    def _among(self) -> "PolicyChoices":
        shown = f"[{', '.join(self.choices)}]"
        if len(set(self.choices)) < len(self.choices):
            raise ValueError(f"choices {shown}: one of them stands there twice")
        if self.start is not None and self.start not in self.choices:
            raise ValueError(f"start {self.start} is not among the choices {shown}")
        return self


@user_written
@ruled(_rules_of(Duration)[0])
class Bounds:
    """Bounds of a length of time that the control plane chooses."""

    min: PositiveDuration
    """Never shorter than this."""

    max: PositiveDuration
    """Never longer than this."""

    @model_validator(mode="after")
    def _grow(self) -> "Bounds":
        check_range(self.min.nanoseconds, self.max.nanoseconds, None, (self.min, self.max))
        return self


def check_range(
    low: float | Decimal, high: float | Decimal, start: float | Decimal | None, written: tuple[object, ...]
) -> None:
    """Raise ValueError, with the values as they were written, unless low <= start <= high."""
    if low > high:
        raise ValueError(f"min {written[0]} is greater than max {written[1]}")
    if start is not None and not low <= start <= high:
        raise ValueError(f"start {written[2]} is outside {written[0]} to {written[1]}")
