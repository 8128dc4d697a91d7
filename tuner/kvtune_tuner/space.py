"""The space that is searched: knobs with bounds and steps, or with choices, and where the search begins.

Called by every proposer and by plan. box.py tells what of it may be tried next. Pure.
"""

import hashlib
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvtune_api import knobs
from kvtune_api.errors import Problem
from kvtune_api.knobs import CacheConfig, Knob, Point, Tiers
from kvtune_api.policy import PolicySpec
from kvtune_api.ranges import CountRange, DurationRange, PolicyChoices, QuantityRange, RatioRange
from kvtune_api.wire import Report
from kvtune_tuner.configs import same_value, with_knob

Range = DurationRange | RatioRange | QuantityRange | CountRange | PolicyChoices


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One knob that is tuned, in the numbers of a point."""

    knob: Knob
    low: float
    high: float
    largest_step: float
    """No experiment changes the knob by more than this factor."""

    choices: tuple[float, ...] = ()
    """All values that it may have, in the order in which they are tried, where they are names."""

    @property
    def movable(self) -> bool:
        """Say whether there is more than one value."""
        return self.low < self.high

    def holds(self, value: float) -> bool:
        """Say whether a value is within the bounds, or among the choices."""
        return value in self.choices if self.choices else self.low <= value <= self.high

    @property
    def span(self) -> str:
        """Write the bounds, or the choices."""
        if self.choices:
            return ", ".join(knobs.written(self.knob, value) for value in self.choices)
        return f"{knobs.written(self.knob, self.low)} to {knobs.written(self.knob, self.high)}"


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
        text = ";".join(
            f"{a.knob}:{a.choices or f'{a.low!r}:{a.high!r}:{a.largest_step!r}'}" for a in self.axes
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def inside(self, point: Point) -> bool:
        """Say whether every knob of the space has a value within its bounds."""
        return all(axis.knob in point and axis.holds(point[axis.knob]) for axis in self.axes)

    def problem(self, incumbent: CacheConfig) -> str | None:
        """Say why nothing can be proposed around this incumbent, with knob, value and bounds."""
        if not self.axes:
            return "no knob of the policy can be changed live at every agent"
        values = knobs.point(incumbent)
        for axis in self.axes:
            value = values.get(axis.knob)
            if value is None:
                return f"{axis.knob}: the incumbent has no value"
            if not axis.holds(value):
                shown = knobs.written(axis.knob, value)
                return f"{axis.knob}: the incumbent's {shown} is outside {axis.span}"
        return None


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


def _ranges(spec: PolicySpec) -> dict[Knob, Range]:
    named: dict[Knob, Range | None] = {
        Knob.CACHE_TTL: spec.knobs.cache_ttl,
        Knob.EVICTION_RATIO: spec.knobs.eviction_ratio,
        Knob.HOST_MEMORY: spec.knobs.tiers.host_memory,
        Knob.EVICTION_POLICY: spec.knobs.eviction_policy,
        Knob.STORE_THRESHOLD: spec.knobs.store_threshold,
    }
    return {knob: found for knob, found in named.items() if found is not None}


def _axis(knob: Knob, found: Range) -> Axis:
    match found:
        case DurationRange():
            low, high = found.min.seconds, found.max.seconds
        case RatioRange() | CountRange():
            low, high = float(found.min), float(found.max)
        case QuantityRange():
            low, high = found.min.bytes, found.max.bytes
        case PolicyChoices():
            values = tuple(knobs.number_of(choice) for choice in found.choices)
            return Axis(knob=knob, low=min(values), high=max(values), largest_step=math.inf, choices=values)
    return Axis(knob=knob, low=low, high=high, largest_step=found.largest_step)


def _asked(spec: PolicySpec) -> CacheConfig:
    """Give the start values that the policy names."""
    ttl, ratio, host = spec.knobs.cache_ttl, spec.knobs.eviction_ratio, spec.knobs.tiers.host_memory
    policy, threshold = spec.knobs.eviction_policy, spec.knobs.store_threshold
    return CacheConfig(
        cache_ttl=ttl.start if ttl else None,
        eviction_ratio=ratio.start if ratio else None,
        tiers=Tiers(host_memory=host.start if host else None),
        eviction_policy=policy.start if policy else None,
        store_threshold=threshold.start if threshold else None,
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
        between = " and " if axis.choices else " to "
        values_shown = between.join(knobs.written(axis.knob, value) for value in (low, high))
        return Problem(path, f"is required: agents report different values, {values_shown}")
    if not axis.holds(known[0]):
        shown = knobs.written(axis.knob, known[0])
        return Problem(path, f"is required: agents report {shown}, outside {axis.span}")
    return None
