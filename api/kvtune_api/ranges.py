"""Ranges that users give: of a knob that may be tuned, and of a length that the control plane chooses."""

from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import frozen
from kvtune_api.units import PositiveDuration, PositiveQuantity

Step = Annotated[float, Field(gt=1, le=64)]


@frozen
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
            self.min.seconds,
            self.max.seconds,
            self.start.seconds if self.start else None,
            (self.min, self.max, self.start),
        )
        return self


@frozen
class RatioRange:
    """The range in which a ratio may be tuned."""

    min: Annotated[float, Field(gt=0, le=1)]
    """Never below this."""

    max: Annotated[float, Field(gt=0, le=1)]
    """Never above this."""

    start: Annotated[float, Field(gt=0, le=1)] | None = None
    """Where to begin; without it, what the agents report."""

    largest_step: Step = 2.0
    """No experiment changes the knob by more than this factor."""

    @model_validator(mode="after")
    def _inside(self) -> "RatioRange":
        check_range(self.min, self.max, self.start, (self.min, self.max, self.start))
        return self


@frozen
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
            self.min.bytes,
            self.max.bytes,
            self.start.bytes if self.start else None,
            (self.min, self.max, self.start),
        )
        return self


@frozen
class Bounds:
    """Bounds of a length of time that the control plane chooses."""

    min: PositiveDuration
    """Never shorter than this."""

    max: PositiveDuration
    """Never longer than this."""

    @model_validator(mode="after")
    def _grow(self) -> "Bounds":
        check_range(self.min.seconds, self.max.seconds, None, (self.min, self.max))
        return self


def check_range(low: float, high: float, start: float | None, written: tuple[object, ...]) -> None:
    """Raise ValueError, with the values as they were written, unless low <= start <= high."""
    if low > high:
        raise ValueError(f"min {written[0]} is greater than max {written[1]}")
    if start is not None and not low <= start <= high:
        raise ValueError(f"start {written[2]} is outside {written[0]} to {written[1]}")
