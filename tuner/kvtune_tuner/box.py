"""What may be tried next: the box of one step around the incumbent.

Called by every proposer. The law of this module: whatever it returns lies within the policy's bounds and
within the largest step of every knob, also after rounding to the written grid; where values are names, every
choice is one step away. Pure.
"""

import math
from dataclasses import dataclass
from itertools import product

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob, Point
from kvtune_tuner.configs import same_value, with_values
from kvtune_tuner.space import Axis, Space

GRID_LEVELS = 9
"""Levels per knob of a grid over a box (experiments.md 10)."""

ROUND_FROM_BYTES = 16 * 2**30
"""From here on a whole GiB is at most 3 % away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One knob of a box: values low to high on the written grid, names, or only the incumbent's value."""

    knob: Knob
    current: float
    """The incumbent's value, on the grid or not."""

    low: float
    high: float
    choices: tuple[float, ...] = ()
    """All values, where they are names; any of them is one step away."""

    @property
    def movable(self) -> bool:
        """Say whether any other value than the incumbent's can be tried."""
        return self.low < self.high or self.low != self.current

    def nearest(self, value: float) -> float:
        """Give the value of this side that is nearest: the incumbent's exactly, or one on the grid.

        Of names none is near another: what is not among them is the incumbent's.
        """
        if self.choices:
            return value if value in self.choices else self.current
        if same_value(value, self.current) or not self.movable:
            return self.current
        return self._round_size(knobs.rounded({self.knob: min(max(value, self.low), self.high)})[self.knob])

    def _round_size(self, value: float) -> float:
        """Give a size of memory in whole GiB, as people write it, where that changes little and is inside."""
        if self.knob is not Knob.HOST_MEMORY or value < ROUND_FROM_BYTES:
            return value
        whole = round(value / 2**30) * float(2**30)
        fits = self.low <= whole <= self.high and not same_value(whole, self.current)
        return whole if fits else value

    def levels(self, count: int) -> tuple[float, ...]:
        """Give up to `count` log-spaced values, growing; the incumbent's replaces the one nearest to it.

        Of names all, in the order in which they are tried.
        """
        if self.choices:
            return self.choices
        if not self.movable:
            return (self.current,)
        ratio = math.log(self.high / self.low) / max(1, count - 1)
        found = [self.nearest(self.low * math.exp(ratio * i)) for i in range(count)]
        closest = min(range(count), key=lambda i: abs(math.log(found[i] / self.current)))
        found[closest] = self.current
        return tuple(sorted(set(found)))

    def holds(self, value: float) -> bool:
        """Say whether a value may be tried, or is the incumbent's."""
        if self.choices:
            return value in self.choices
        return same_value(value, self.current) or self.low <= value <= self.high


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
            if value is None or not side.holds(value):
                return False
        return values == others


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


def _side(axis: Axis, current: float, factor: float | None) -> Side:
    if axis.choices:
        return Side(knob=axis.knob, current=current, low=axis.low, high=axis.high, choices=axis.choices)
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
        case Knob.EVICTION_POLICY | Knob.STORE_THRESHOLD:
            return 1.0
