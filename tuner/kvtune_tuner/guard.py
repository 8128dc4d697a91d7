"""Check whether a candidate must go back at once: a chain of checks, the first violation wins.

Called by plan in every tick in which a candidate is live. This is safety and not statistics: it may end an
experiment, it can never promote. Missing data never trips a check. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvtune_tuner.limits import BreakerLimits
from kvtune_tuner.sli import Missing, WindowCounts, pooled
from kvtune_tuner.ttft import Share, share_under


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmAgent:
    """Hold for how long an agent of an arm has not answered; 0 when it answered this tick."""

    name: str
    unreachable_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWindows:
    """Hold both arms' counts of one pair over one span."""

    pair: str
    candidate: WindowCounts | Missing
    control: WindowCounts | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Ask that the share `quantile` of requests has a TTFT of at most limit_s."""

    limit_s: float
    quantile: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """Hold how often agents restarted in each arm; `repeated` are the candidate arm's by agents that had
    restarted before."""

    candidate: int = 0
    control: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardInput:
    """Hold all that the guards look at in one tick. long and short are the spans of breaker_spans, else
    empty."""

    candidates: tuple[ArmAgent, ...]
    controls: tuple[ArmAgent, ...]
    long: tuple[PairWindows, ...] = ()
    short: tuple[PairWindows, ...] = ()
    target: Target | None = None
    restarts: Restarts = field(default_factory=Restarts)
    limits: BreakerLimits = field(default_factory=BreakerLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Hold the check that tripped, its machine reason, and a sentence with metric, value, limit and
    window."""

    check: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Hold the bounds of the breaker's windows, seconds of the engines' clock."""

    long_from_s: float
    short_from_s: float
    to_s: float


def breaker_spans(now_s: float, candidate_since_s: float, limits: BreakerLimits) -> Spans | None:
    """Return the breaker's windows, cut at the candidate's start; None before it has run for warm_up_s."""
    if now_s - candidate_since_s < limits.warm_up_s:
        return None
    return Spans(
        long_from_s=max(candidate_since_s, now_s - limits.long_s),
        short_from_s=max(candidate_since_s, now_s - limits.short_s),
        to_s=now_s,
    )


def unreachable(seen: GuardInput) -> Violation | None:
    """Trip when a candidate's agent does not answer while some agent of the control arm does.

    When nobody answers it is the network or this process: nothing is rolled back because of that (cases 3,
    12)."""
    if not any(agent.unreachable_s <= 0.0 for agent in seen.controls):
        return None
    gone = [agent for agent in seen.candidates if agent.unreachable_s >= seen.limits.unreachable_s]
    if not gone:
        return None
    worst = max(gone, key=lambda agent: agent.unreachable_s)
    return Violation(
        check="unreachable",
        reason="CandidateUnreachable",
        message=f"{len(gone)} of {len(seen.candidates)} candidate agents do not answer: {worst.name} for "
        f"{worst.unreachable_s:g} s, limit {seen.limits.unreachable_s:g} s",
    )


def restarts(seen: GuardInput) -> Violation | None:
    """Trip when candidate agents restart again and again while the control arm's do not."""
    found, limits = seen.restarts, seen.limits
    sd = math.sqrt(found.candidate + found.control)
    more = max(float(limits.restarts_over_control), limits.restarts_over_control_sd * sd)
    if found.candidate < limits.least_restarts or found.candidate - found.control < more:
        return None
    if found.repeated < limits.least_repeated_restarts:
        return None
    return Violation(
        check="restarts",
        reason="CandidateRestarts",
        message=f"agents restarted {found.candidate} times in the candidate arm and {found.control} times in "
        f"the control arm during the experiment, limit {more:.3g} more",
    )


def errors(seen: GuardInput) -> Violation | None:
    """Trip when the candidate arm's share of failed requests is above the control arm's by more than the
    limit."""
    arms = _arms(seen.long, seen.limits)
    if arms is None:
        return None
    candidate, control = (_error_share(window) for window in arms)
    if candidate is None or control is None or (arms[0].errors or 0.0) < seen.limits.least_errors:
        return None
    if candidate - control <= seen.limits.error_share_over_control:
        return None
    return Violation(
        check="errors",
        reason="CandidateErrors",
        message=f"{candidate:.1%} of the candidate arm's requests failed in {arms[0].seconds:g} s, control "
        f"arm {control:.1%}, limit {seen.limits.error_share_over_control:.1%} above it",
    )


def breaker(seen: GuardInput) -> Violation | None:
    """Trip when the candidate arm is far over the TTFT limit, in both spans and in every pair."""
    if seen.target is None:
        return None
    spans = [_slow(pairs, seen.target, seen.limits) for pairs in (seen.long, seen.short)]
    violated = any(span is not None and span.control_violates for span in spans)
    for span in spans:
        if span is None or not span.trips(seen.target, seen.limits, violated=violated):
            return None
    long = spans[0]
    assert long is not None  # the loop returned otherwise
    margin = seen.limits.over_control_when_violated if violated else seen.limits.over_control
    return Violation(
        check="breaker",
        reason="CandidateTooSlow",
        message=f"{long.candidate:.1%} of the candidate arm's requests are over {seen.target.limit_s:g} s in "
        f"{long.seconds:g} s, limit {_budget(seen.target, seen.limits):.1%}; control arm {long.control:.1%}, "
        f"limit {margin:.0%} above it; smallest excess in a pair {long.least_excess:.1%}, limit "
        f"{seen.limits.over_control_in_pair:.0%}",
    )


CHECKS: tuple[tuple[str, Callable[[GuardInput], Violation | None]], ...] = (
    ("unreachable", unreachable),
    ("restarts", restarts),
    ("errors", errors),
    ("breaker", breaker),
)


def first_violation(seen: GuardInput) -> Violation | None:
    """Return the first violation in the order of CHECKS, None when every check passes or cannot say."""
    for _, check in CHECKS:
        if (violation := check(seen)) is not None:
            return violation
    return None


def incumbent_violates(seen: GuardInput) -> str | None:
    """Return the message of condition IncumbentViolatesTarget, None when the control arm does not violate
    it."""
    if seen.target is None:
        return None
    span = _slow(seen.long, seen.target, seen.limits)
    if span is None or not span.control_violates:
        return None
    return (
        f"{span.control:.1%} of the control arm's requests are over {seen.target.limit_s:g} s in "
        f"{span.seconds:g} s, the target allows {1.0 - seen.target.quantile:.1%}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slow:
    """Hold the shares over the limit in one span; candidate and control at the largest boundary <= limit."""

    seconds: float
    candidate: float
    candidate_surely: float
    """At the smallest boundary >= limit: over the limit for certain."""

    control: float
    control_violates: bool
    least_excess: float
    """Smallest of candidate - control over the pairs."""

    def trips(self, target: Target, limits: BreakerLimits, *, violated: bool) -> bool:
        """Say whether all of the breaker's conditions hold in this span."""
        margin = limits.over_control_when_violated if violated else limits.over_control
        return (
            self.candidate_surely > _budget(target, limits)
            and self.candidate - self.control > margin
            and self.least_excess > limits.over_control_in_pair
        )


def _budget(target: Target, limits: BreakerLimits) -> float:
    return limits.budget_factor * (1.0 - target.quantile)


def _usable(pairs: Sequence[PairWindows]) -> list[tuple[WindowCounts, WindowCounts]]:
    """Return (candidate, control) of the pairs in which neither is missing."""
    return [
        (pair.candidate, pair.control)
        for pair in pairs
        if not isinstance(pair.candidate, Missing) and not isinstance(pair.control, Missing)
    ]


def _arms(pairs: Sequence[PairWindows], limits: BreakerLimits) -> tuple[WindowCounts, WindowCounts] | None:
    """Return both arms' sums over the pairs with data; None with too few pairs."""
    usable = _usable(pairs)
    if not usable or len(usable) < limits.least_pairs_share * len(pairs):
        return None
    candidate = pooled([candidate for candidate, _ in usable])
    control = pooled([control for _, control in usable])
    if isinstance(candidate, Missing) or isinstance(control, Missing):
        return None
    return candidate, control


def _error_share(window: WindowCounts) -> float | None:
    """Return errors over requests; all of them when an engine counts only finished requests as requests."""
    if window.errors is None or window.requests is None:
        return None
    tries = max(window.requests, window.errors)
    return window.errors / tries if tries > 0.0 else 0.0


def _slow(pairs: Sequence[PairWindows], target: Target, limits: BreakerLimits) -> _Slow | None:
    """Return the shares over the limit in one span; None where data are missing or too few."""
    arms = _arms(pairs, limits)
    if arms is None:
        return None
    candidate, control = (share_under(window, target.limit_s) for window in arms)
    if isinstance(candidate, Missing) or isinstance(control, Missing):
        return None
    if min(candidate.total, control.total) < limits.least_requests:
        return None
    excess: list[float] = []
    for windows in _usable(pairs):
        ours, theirs = (share_under(window, target.limit_s) for window in windows)
        if isinstance(ours, Missing) or isinstance(theirs, Missing):
            continue
        excess.append(_over(ours) - _over(theirs))
    return _Slow(
        seconds=arms[0].seconds,
        candidate=_over(candidate),
        candidate_surely=1.0 - candidate.above,
        control=_over(control),
        control_violates=control.above < target.quantile,
        least_excess=min(excess, default=0.0),
    )


def _over(share: Share) -> float:
    """Return the share over the limit by which arms are compared."""
    return 1.0 - (share.below if share.boundary_s is not None else share.above)
