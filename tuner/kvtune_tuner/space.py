"""The space that is searched: knobs with bounds and steps, and boxes around the incumbent that may be tried.

Called by every proposer and by plan. The law of this module: whatever it returns lies within the policy's
bounds and, for a box, within the largest step of every knob, also after rounding to the written grid. Pure.
"""

import hashlib
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product

from kvtune_api import knobs
from kvtune_api.errors import Problem
from kvtune_api.knobs import CacheConfig, Knob, Point, Tiers
from kvtune_api.policy import PolicySpec
from kvtune_api.ranges import DurationRange, QuantityRange, RatioRange
from kvtune_api.wire import Report
from kvtune_tuner.configs import same_value, with_knob, with_values

Range = DurationRange | RatioRange | QuantityRange

GRID_LEVELS = 9
"""Levels per knob of a grid over a box (experiments.md 10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One knob that is tuned, in base units (seconds, ratio, bytes)."""

    knob: Knob
    low: float
    high: float
    largest_step: float
    """No experiment changes the knob by more than this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs that are tuned, in the order of `Knob`."""

    axes: tuple[Axis, ...]
    left_out: tuple[Knob, ...] = ()
    """Knobs that the policy names and that not every agent can change live."""

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Name the knobs that are tuned."""
        return tuple(axis.knob for axis in self.axes)

    @property
    def digest(self) -> str:
        """Name the space: 16 hex digits that change with any knob, bound or step."""
        text = ";".join(f"{a.knob}:{a.low!r}:{a.high!r}:{a.largest_step!r}" for a in self.axes)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def inside(self, point: Point) -> bool:
        """Say whether every knob of the space has a value within its bounds."""
        return all(axis.knob in point and axis.low <= point[axis.knob] <= axis.high for axis in self.axes)

    def problem(self, incumbent: CacheConfig) -> str | None:
        """Say why nothing can be proposed around this incumbent, with knob, value and bounds."""
        if not self.axes:
            return "no knob of the policy can be changed live at every agent"
        values = knobs.point(incumbent)
        for axis in self.axes:
            value = values.get(axis.knob)
            if value is None:
                return f"{axis.knob}: the incumbent has no value"
            if not axis.low <= value <= axis.high:
                shown = knobs.written(axis.knob, value)
                return f"{axis.knob}: the incumbent's {shown} is outside {_span(axis)}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One knob of a box: values low to high on the written grid, or only the incumbent's value."""

    knob: Knob
    current: float
    """The incumbent's value, on the grid or not."""

    low: float
    high: float

    @property
    def movable(self) -> bool:
        """Say whether any other value than the incumbent's can be tried."""
        return self.low < self.high or self.low != self.current

    def nearest(self, value: float) -> float:
        """Give the value of this side that is nearest: the incumbent's exactly, or one on the grid."""
        if same_value(value, self.current) or not self.movable:
            return self.current
        return knobs.rounded({self.knob: min(max(value, self.low), self.high)})[self.knob]

    def levels(self, count: int) -> tuple[float, ...]:
        """Give up to `count` log-spaced values, growing; the incumbent's replaces the one nearest to it."""
        if not self.movable:
            return (self.current,)
        ratio = math.log(self.high / self.low) / max(1, count - 1)
        found = [self.nearest(self.low * math.exp(ratio * i)) for i in range(count)]
        closest = min(range(count), key=lambda i: abs(math.log(found[i] / self.current)))
        found[closest] = self.current
        return tuple(sorted(set(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What may be tried next: within the bounds and within one step of the incumbent."""

    incumbent: CacheConfig
    sides: tuple[Side, ...]

    def clamp(self, point: Point) -> dict[Knob, float]:
        """Give the nearest point of the box; a knob that `point` lacks keeps the incumbent's value."""
        return {side.knob: side.nearest(point.get(side.knob, side.current)) for side in self.sides}

    def config(self, point: Point) -> CacheConfig:
        """Write the nearest point of the box; knobs that do not move stay as the incumbent has them."""
        inside = self.clamp(point)
        moved = {s.knob: inside[s.knob] for s in self.sides if not same_value(inside[s.knob], s.current)}
        return with_values(self.incumbent, moved)

    def holds(self, config: CacheConfig) -> bool:
        """Say whether a configuration is in the box: each knob on its side, all others the incumbent's."""
        values, others = knobs.point(config), knobs.point(self.incumbent)
        for side in self.sides:
            value = values.pop(side.knob, None)
            others.pop(side.knob)
            if value is None or not (same_value(value, side.current) or side.low <= value <= side.high):
                return False
        return values == others


@dataclass(frozen=True, slots=True, kw_only=True)
class NoStart:
    """There is nothing to begin with: everything that is missing or out of bounds."""

    problems: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """Say it in one line."""
        return "; ".join(str(problem) for problem in self.problems)


def live_knobs(reports: Sequence[Report]) -> frozenset[Knob]:
    """Name the knobs that every agent can change without a restart; none without agents."""
    each = [{support.knob for support in report.supports if support.live} for report in reports]
    return frozenset(set.intersection(*each)) if each else frozenset()


def space_of(spec: PolicySpec, live: AbstractSet[Knob]) -> Space:
    """Make the space of a policy from its knobs that are live at every agent."""
    named = _ranges(spec)
    return Space(
        axes=tuple(_axis(knob, found) for knob, found in named.items() if knob in live),
        left_out=tuple(knob for knob in named if knob not in live),
    )


def start(spec: PolicySpec, space: Space, reported: Sequence[CacheConfig]) -> CacheConfig | NoStart:
    """Choose the first incumbent: the policy's start values, else what all agents report, if it is in bounds.

    Knobs outside the space are not set, so agents keep their own.
    """
    asked = _asked(spec)
    begin = CacheConfig()
    problems: list[Problem] = []
    for axis in space.axes:
        if axis.knob in knobs.point(asked):
            begin = with_knob(begin, axis.knob, asked)
        elif (problem := _disagreement(axis, reported)) is not None:
            problems.append(problem)
        else:
            begin = with_knob(begin, axis.knob, reported[0])
    return NoStart(problems=tuple(problems)) if problems else begin


def step_box(space: Space, incumbent: CacheConfig, factor: float | None = None) -> Box:
    """Make the box of one step around an incumbent; `factor` (> 1) lowers every largest step to itself.

    Raises ValueError with what `Space.problem` says where that is not None.
    """
    problem = space.problem(incumbent)
    if problem is not None:
        raise ValueError(problem)
    values = knobs.point(incumbent)
    return Box(
        incumbent=incumbent,
        sides=tuple(_side(axis, values[axis.knob], factor) for axis in space.axes),
    )


def grid(box: Box, levels: int = GRID_LEVELS) -> tuple[dict[Knob, float], ...]:
    """List all combinations of log-spaced levels in a box, the incumbent's own point among them."""
    names = [side.knob for side in box.sides]
    return tuple(
        dict(zip(names, values, strict=True))
        for values in product(*(side.levels(levels) for side in box.sides))
    )


def _span(axis: Axis) -> str:
    return f"{knobs.written(axis.knob, axis.low)} to {knobs.written(axis.knob, axis.high)}"


def _ranges(spec: PolicySpec) -> dict[Knob, Range]:
    named: dict[Knob, Range | None] = {
        Knob.CACHE_TTL: spec.knobs.cache_ttl,
        Knob.EVICTION_RATIO: spec.knobs.eviction_ratio,
        Knob.HOST_MEMORY: spec.knobs.tiers.host_memory,
    }
    return {knob: found for knob, found in named.items() if found is not None}


def _axis(knob: Knob, found: Range) -> Axis:
    match found:
        case DurationRange():
            low, high = found.min.seconds, found.max.seconds
        case RatioRange():
            low, high = found.min, found.max
        case QuantityRange():
            low, high = found.min.bytes, found.max.bytes
    return Axis(knob=knob, low=low, high=high, largest_step=found.largest_step)


def _asked(spec: PolicySpec) -> CacheConfig:
    """Give the start values that the policy names."""
    ttl, ratio, host = spec.knobs.cache_ttl, spec.knobs.eviction_ratio, spec.knobs.tiers.host_memory
    return CacheConfig(
        cache_ttl=ttl.start if ttl else None,
        eviction_ratio=ratio.start if ratio else None,
        tiers=Tiers(host_memory=host.start if host else None),
    )


def _disagreement(axis: Axis, reported: Sequence[CacheConfig]) -> Problem | None:
    """Say why what the agents report cannot be the start of this knob."""
    path = f"spec.knobs.{axis.knob}.start"
    values = [knobs.point(config).get(axis.knob) for config in reported]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Problem(path, f"is required: {len(known)} of {len(values)} agents report a value")
    low, high = min(known), max(known)
    if not same_value(low, high):
        between = f"{knobs.written(axis.knob, low)} to {knobs.written(axis.knob, high)}"
        return Problem(path, f"is required: agents report different values, {between}")
    if not axis.low <= known[0] <= axis.high:
        shown = knobs.written(axis.knob, known[0])
        return Problem(path, f"is required: agents report {shown}, outside {_span(axis)}")
    return None


def _side(axis: Axis, current: float, factor: float | None) -> Side:
    step = axis.largest_step if factor is None else min(axis.largest_step, factor)
    lowest, highest = max(axis.low, current / step), min(axis.high, current * step)
    low, high = _grid_up(axis.knob, lowest), _grid_down(axis.knob, highest)
    if not lowest <= low <= high <= highest:
        low = high = current
    return Side(knob=axis.knob, current=current, low=low, high=high)


def _grid_up(knob: Knob, limit: float) -> float:
    value = knobs.rounded({knob: limit})[knob]
    return value if value >= limit else knobs.rounded({knob: value + _grid_step(knob, limit)})[knob]


def _grid_down(knob: Knob, limit: float) -> float:
    value = knobs.rounded({knob: limit})[knob]
    return value if value <= limit else knobs.rounded({knob: value - _grid_step(knob, limit)})[knob]


def _grid_step(knob: Knob, value: float) -> float:
    """Give the spacing of the grid that `knobs.rounded` writes on."""
    match knob:
        case Knob.CACHE_TTL:
            return 1.0 if value >= 10 else 0.1
        case Knob.EVICTION_RATIO:
            return 0.001
        case Knob.HOST_MEMORY:
            return 2.0**20
