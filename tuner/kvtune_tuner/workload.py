"""Describe a workload in a few numbers, and say whether it has moved since.

Called by plan, which marks the trials as shifted; the deny-list and the proposers then start afresh. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from kvtune_api.status import Workload
from kvtune_api.wire import Report, ReuseAges

LEAST_TOUCHES = 1_000
"""Fewer touches say nothing about reuse."""

REUSE_MOVED = 0.15
"""Largest difference of the shares reused within any age that is still the same workload (chosen)."""

RATE_MOVED = 0.5
"""Largest change of the request rate, relative to the larger one, that is the same workload (chosen)."""

YOUNG = 8
"""Ages above 1/8 of the time counted are left out: a count that begins with no memory misses old re-touches.
On generated chat the share reused at any age grows from .61 at 200 s to .82 at 3,600 s; up to 1/8 the bias is
under .05 for exponential ages of mean 150 s."""

_OCTAVES = 16
"""Ages 1 s to at most 2**15 s (9 h)."""


def workload_of(reports: Sequence[Report]) -> Workload:
    """Describe the traffic that the agents report."""
    rates = [report.load.request_rate for report in reports if report.load.request_rate is not None]
    ages = [report.reuse for report in reports if report.reuse is not None]
    touches = sum(one.touches for one in ages)
    reused: tuple[float, ...] = ()
    if touches >= LEAST_TOUCHES:
        oldest_s = min(one.seconds for one in ages) / YOUNG
        known = [2.0**i for i in range(_OCTAVES) if 2.0**i <= oldest_s]
        reused = tuple(sum(_within(one, age_s) for one in ages) / touches for age_s in known)
    return Workload(request_rate=sum(rates) / len(rates) if rates else None, touches=touches, reused=reused)


def workload_shifted(then: Workload, now: Workload) -> str | None:
    """Say by what the workload has moved, or None.

    Reuse has moved when the share of touches reused within some age differs by more than 0.15 (a
    Kolmogorov-Smirnov distance that counts first touches as reused never); traffic when the request rate has
    halved or doubled. What either side does not know has not moved.
    """
    if then.reused and now.reused:
        apart = [abs(a - b) for a, b in zip(then.reused, now.reused, strict=False)]
        worst = max(range(len(apart)), key=apart.__getitem__)
        if apart[worst] > REUSE_MOVED:
            was, is_now = then.reused[worst], now.reused[worst]
            return f"share of touches reused within {2**worst}s went from {was:.2f} to {is_now:.2f}"
    if then.request_rate is not None and now.request_rate is not None:
        larger = max(then.request_rate, now.request_rate)
        if larger > 0 and abs(then.request_rate - now.request_rate) / larger > RATE_MOVED:
            was, is_now = then.request_rate, now.request_rate
            return f"requests per second and agent went from {was:.3g} to {is_now:.3g}"
    return None


def remembered(then: Workload, now: Workload) -> Workload:
    """Choose what to compare with next time while nothing has moved: what says more, else what was first.

    The first look at a young pool knows little, and would otherwise stay what all is compared with.
    """
    if len(now.reused) > len(then.reused):
        return now
    return replace(then, request_rate=now.request_rate) if then.request_rate is None else then


def _within(ages: ReuseAges, seconds: float) -> float:
    """Count re-touches by an age; bins that straddle it count in proportion."""
    total = below = 0.0
    for i, count in enumerate(ages.counts):
        edge = ages.first_edge_seconds * math.pow(2.0, i / ages.bins_per_octave)
        if edge > seconds * (1 + 1e-9):
            return total + count * (seconds - below) / (edge - below)
        total, below = total + count, edge
    return total
