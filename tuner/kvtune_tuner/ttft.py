"""Read shares and quantiles of the time to first token from histogram buckets, without interpolation.

A quantile interpolated inside a bucket can be far off (a true .322 s reads .399 s with vLLM's buckets), so
decisions use the share of requests at a bucket boundary. Called by plan, guard and status. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

_SAME = 1e-9
"""Relative difference below which a limit is taken to be a boundary: 250ms reads as 0.25 or 0.25000000001."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bound the share of requests within a limit by the boundaries around it: below <= share <= above."""

    limit_s: float
    total: float
    """Requests whose TTFT was counted."""

    boundary_s: float | None
    """Largest boundary <= limit; None if the limit is below all of them."""

    next_boundary_s: float
    """Smallest boundary >= limit; infinity above the top."""

    within: float
    """Requests within boundary_s; 0 without one, which is a bound and not a measurement."""

    within_next: float
    """Requests within next_boundary_s."""

    @property
    def below(self) -> float:
        """Return the smallest possible share within the limit."""
        return self.within / self.total

    @property
    def above(self) -> float:
        """Return the largest possible share within the limit."""
        return self.within_next / self.total


def share_under(window: WindowCounts, limit_s: float) -> Share | Missing:
    """Return the share of requests with TTFT <= limit, bounded by the boundaries around it.

    Raises ValueError for a limit that is not a positive number.
    """
    if not (math.isfinite(limit_s) and limit_s > 0.0):
        raise ValueError(f"limit: {limit_s} s is not above 0 s")
    counted = _counted(window)
    if isinstance(counted, Missing):
        return counted
    below, above = None, math.inf
    within, within_next = 0.0, counted
    for bound, count in zip(window.ttft_le, window.ttft_counts, strict=True):
        at_limit = math.isclose(bound, limit_s, rel_tol=_SAME)
        if bound < limit_s or at_limit:
            below, within = bound, count
        if bound > limit_s or at_limit:
            above, within_next = bound, count
            break
    return Share(
        limit_s=limit_s,
        total=counted,
        boundary_s=below,
        next_boundary_s=above,
        within=within,
        within_next=within_next,
    )


def _counted(window: WindowCounts) -> float | Missing:
    """Return how many requests have a TTFT in the window."""
    if not window.ttft_le:
        return Missing(reason=MissingReason.NOT_AVAILABLE, message="ttft: no histogram is reported")
    if window.ttft_counts[-1] <= 0.0:
        return Missing(
            reason=MissingReason.NO_TRAFFIC, message=f"ttft: no request in a window of {window.seconds:g} s"
        )
    return window.ttft_counts[-1]


class Standing(StrEnum):
    """Say how a measurement stands to its target."""

    MET = "Met"
    VIOLATED = "Violated"
    RESOLUTION_INSUFFICIENT = "ResolutionInsufficient"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """Hold how a target stands, with a sentence; nearest_s is the nearest usable limit."""

    standing: Standing
    message: str
    nearest_s: float | None = None


def judge_target(share: Share, quantile: float) -> TargetReport:
    """Return whether at least `quantile` of the requests are within the limit.

    Met only if the boundary below the limit says so, violated only if the one above does.
    ResolutionInsufficient never blocks an experiment. Raises ValueError unless 0 < quantile < 1.
    """
    _check_quantile(quantile)
    asked = f"{quantile:.1%} within {share.limit_s:g} s asked"
    if share.below >= quantile:
        message = f"{share.below:.1%} within {share.boundary_s:g} s, {asked}"
        return TargetReport(standing=Standing.MET, message=message)
    if share.above < quantile:
        message = f"{share.above:.1%} within {share.next_boundary_s:g} s, {asked}"
        return TargetReport(standing=Standing.VIOLATED, message=message)
    nearest = _nearest(share)
    message = (
        f"between {share.below:.1%} and {share.above:.1%}, {asked}; "
        f"the limit is no bucket boundary, the nearest is {nearest} s"
    )
    return TargetReport(standing=Standing.RESOLUTION_INSUFFICIENT, message=message, nearest_s=nearest)


def _nearest(share: Share) -> float | None:
    """Return the finite boundary nearest to the limit; the lower one when both are as near, None without
    any."""
    if share.boundary_s is None:
        return share.next_boundary_s if math.isfinite(share.next_boundary_s) else None
    if share.limit_s - share.boundary_s <= share.next_boundary_s - share.limit_s:
        return share.boundary_s
    return share.next_boundary_s


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBounds:
    """Bound a quantile of the TTFT: low_s < quantile <= high_s; high_s None is above the top bucket."""

    low_s: float
    high_s: float | None

    @property
    def text(self) -> str:
        """Return the bounds for a reader."""
        return f"> {self.low_s:g} s" if self.high_s is None else f"{self.low_s:g} to {self.high_s:g} s"


def quantile_bounds(window: WindowCounts, quantile: float) -> QuantileBounds | Missing:
    """Return the bucket that holds a quantile of the TTFT. Raises ValueError unless 0 < quantile < 1."""
    _check_quantile(quantile)
    counted = _counted(window)
    if isinstance(counted, Missing):
        return counted
    low = 0.0
    for bound, count in zip(window.ttft_le, window.ttft_counts, strict=True):
        if count >= quantile * counted and bound != math.inf:
            return QuantileBounds(low_s=low, high_s=bound)
        if bound != math.inf:
            low = bound
    return QuantileBounds(low_s=low, high_s=None)


def _check_quantile(quantile: float) -> None:
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile: {quantile} is not between 0 and 1")
