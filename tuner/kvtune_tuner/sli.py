"""Turn counter windows into numbers, or into Missing with a reason.

Called by plan for epochs, guards and status. Missing data is a value with a reason: never zero, never NaN,
and it neither passes nor fails a candidate. Hit rate and objective are in effect.py, shares of TTFT in
ttft.py. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

COUNTERS = (
    "requests",
    "prompt_tokens",
    "hit_tokens",
    "eviction_passes",
    "bytes_down",
    "errors",
    "new_session_roots",
)


class MissingReason(StrEnum):
    """Say why a number is missing."""

    NO_TRAFFIC = "NoTraffic"
    NO_DATA = "NoData"
    BOUND_MISSED = "BoundMissed"
    RESTARTED = "Restarted"
    COUNTER_DECREASED = "CounterDecreased"
    NAN = "NaN"
    INCONSISTENT = "Inconsistent"
    AMBIGUOUS = "AmbiguousResult"
    STALE = "Stale"
    TOO_FEW_REQUESTS = "TooFewRequests"
    CONFIG_DRIFT = "ConfigDrift"
    NOT_STATIONARY = "NotStationary"
    LEASE_LAPSED = "LeaseLapsed"
    UNREACHABLE = "Unreachable"
    LEFT = "Left"
    RESOLUTION_INSUFFICIENT = "ResolutionInsufficient"
    NOT_AVAILABLE = "NotAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Stand for a number that nobody knows, with a machine reason and a sentence."""

    reason: MissingReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSample:
    """Hold one agent's counters at one moment. None and an empty tuple mean: not reported.

    ttft_le are the histogram's upper bounds in seconds, growing, the last one infinity; ttft_counts are
    cumulative.
    """

    at_s: float
    started_at_s: float | None = None
    requests: float | None = None
    prompt_tokens: float | None = None
    hit_tokens: float | None = None
    eviction_passes: float | None = None
    bytes_down: float | None = None
    errors: float | None = None
    new_session_roots: float | None = None
    ttft_le: tuple[float, ...] = ()
    ttft_counts: tuple[float, ...] = ()

    @property
    def counters(self) -> tuple[float | None, ...]:
        """Return the plain counters in the order of COUNTERS."""
        return (
            self.requests,
            self.prompt_tokens,
            self.hit_tokens,
            self.eviction_passes,
            self.bytes_down,
            self.errors,
            self.new_session_roots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Hold the increases of one agent's counters over a window, or the sums over several agents.

    ttft_counts are increases of cumulative buckets. reset tells that a counter began anew inside the window
    while nobody knew whether the process had restarted.
    """

    seconds: float
    requests: float | None = None
    prompt_tokens: float | None = None
    hit_tokens: float | None = None
    eviction_passes: float | None = None
    bytes_down: float | None = None
    errors: float | None = None
    new_session_roots: float | None = None
    ttft_le: tuple[float, ...] = ()
    ttft_counts: tuple[float, ...] = ()
    reset: bool = False

    @property
    def counters(self) -> tuple[float | None, ...]:
        """Return the plain counters in the order of COUNTERS."""
        return (
            self.requests,
            self.prompt_tokens,
            self.hit_tokens,
            self.eviction_passes,
            self.bytes_down,
            self.errors,
            self.new_session_roots,
        )


def increase(start: CounterSample, end: CounterSample) -> WindowCounts | Missing:
    """Return what happened between two samples of one agent.

    Another process start is Missing(Restarted), for the cache lost its blocks (case 13). Where the start is
    not known, counters that fell are counted from zero, as Prometheus' increase() does, and reset is set.
    """
    bad = _invalid(start) or _invalid(end) or _incomparable(start, end)
    if bad is not None:
        return bad
    fell = _fallen(start, end)
    if fell is not None and start.started_at_s is not None and end.started_at_s is not None:
        return Missing(
            reason=MissingReason.COUNTER_DECREASED,
            message=f"{fell} fell between {start.at_s:g} s and {end.at_s:g} s without a restart",
        )
    timed = bool(start.ttft_le and end.ttft_le)
    lower = (0.0,) * len(end.ttft_counts) if fell is not None else start.ttft_counts
    buckets = tuple(b - a for a, b in zip(lower, end.ttft_counts, strict=True)) if timed else ()
    if any(later < earlier for earlier, later in pairwise(buckets)):
        return Missing(
            reason=MissingReason.INCONSISTENT,
            message=f"ttft: buckets between {start.at_s:g} s and {end.at_s:g} s are not cumulative",
        )
    counters = tuple(
        None if a is None or b is None else b - (0.0 if fell is not None else a)
        for a, b in zip(start.counters, end.counters, strict=True)
    )
    bounds = end.ttft_le if timed else ()
    return _window(end.at_s - start.at_s, counters, bounds, buckets, reset=fell is not None)


def pooled(windows: Sequence[WindowCounts]) -> WindowCounts | Missing:
    """Return the sums over agents; a counter that one of them lacks is None. Seconds are the mean window."""
    if not windows:
        return Missing(reason=MissingReason.NO_DATA, message="no window to sum")
    bounds = windows[0].ttft_le if len({window.ttft_le for window in windows}) == 1 else ()
    columns = zip(*(window.counters for window in windows), strict=True)
    counters = tuple(_sum_or_none(column) for column in columns)
    buckets = (
        tuple(math.fsum(column) for column in zip(*(window.ttft_counts for window in windows), strict=True))
        if bounds
        else ()
    )
    seconds = math.fsum(window.seconds for window in windows) / len(windows)
    return _window(seconds, counters, bounds, buckets, reset=any(window.reset for window in windows))


def _invalid(sample: CounterSample) -> Missing | None:
    """Return why a sample is no set of counters: NaN, infinite, negative, or buckets out of shape."""
    if _is_sound(sample):
        return None
    where = f"sample at {sample.at_s:g} s"
    if not math.isfinite(sample.at_s):
        return Missing(reason=MissingReason.NAN, message=f"{where}: the time is not a finite number")
    named = list(zip(COUNTERS, sample.counters, strict=True))
    buckets = zip(sample.ttft_le, sample.ttft_counts, strict=False)
    named += [(f"ttft bucket {le:g}", count) for le, count in buckets]
    for name, value in named:
        if value is not None and not (math.isfinite(value) and value >= 0.0):
            return Missing(reason=MissingReason.NAN, message=f"{where}: {name} is {value}, not a count")
    if problem := _bucket_problem(sample.ttft_le, sample.ttft_counts):
        return Missing(reason=MissingReason.INCONSISTENT, message=f"{where}: ttft: {problem}")
    return None


def _is_sound(sample: CounterSample) -> bool:
    """Whether there is nothing to tell of a sample: the usual case, without words. False for NaN."""
    return (
        math.isfinite(sample.at_s)
        and all(value is None or 0.0 <= value < math.inf for value in sample.counters)
        and all(0.0 <= count < math.inf for count in sample.ttft_counts)
        and _bucket_problem(sample.ttft_le, sample.ttft_counts) is None
    )


def _bucket_problem(bounds: tuple[float, ...], counts: tuple[float, ...]) -> str | None:
    if len(bounds) != len(counts):
        return f"{len(counts)} counts for {len(bounds)} bounds"
    if not bounds:
        return None
    if bounds[-1] != math.inf:
        return "the last bound is not +Inf"
    if not all(a < b for a, b in pairwise(bounds)):
        return "the bounds do not grow"
    if any(b < a for a, b in pairwise(counts)):
        return "the buckets are not cumulative"
    return None


def _incomparable(start: CounterSample, end: CounterSample) -> Missing | None:
    """Return why two valid samples do not bound a window."""
    if end.at_s <= start.at_s:
        return Missing(
            reason=MissingReason.STALE,
            message=f"the sample at {end.at_s:g} s is not newer than the one at {start.at_s:g} s",
        )
    known = start.started_at_s is not None and end.started_at_s is not None
    if known and start.started_at_s != end.started_at_s:
        return Missing(
            reason=MissingReason.RESTARTED,
            message=f"the process restarted between {start.at_s:g} s and {end.at_s:g} s",
        )
    if start.ttft_le and end.ttft_le and start.ttft_le != end.ttft_le:
        return Missing(reason=MissingReason.INCONSISTENT, message="ttft: the bucket bounds changed")
    return None


def _fallen(start: CounterSample, end: CounterSample) -> str | None:
    """Return the name of a counter that fell, None when none did."""
    for name, before, after in zip(COUNTERS, start.counters, end.counters, strict=True):
        if before is not None and after is not None and after < before:
            return name
    if any(after < before for before, after in zip(start.ttft_counts, end.ttft_counts, strict=False)):
        return "a ttft bucket"
    return None


def _sum_or_none(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return math.fsum(present) if len(present) == len(values) else None


def _window(
    seconds: float,
    counters: tuple[float | None, ...],
    ttft_le: tuple[float, ...],
    ttft_counts: tuple[float, ...],
    *,
    reset: bool,
) -> WindowCounts:
    requests, prompt_tokens, hit_tokens, eviction_passes, bytes_down, errors, new_session_roots = counters
    return WindowCounts(
        seconds=seconds,
        requests=requests,
        prompt_tokens=prompt_tokens,
        hit_tokens=hit_tokens,
        eviction_passes=eviction_passes,
        bytes_down=bytes_down,
        errors=errors,
        new_session_roots=new_session_roots,
        ttft_le=ttft_le,
        ttft_counts=ttft_counts,
        reset=reset,
    )
