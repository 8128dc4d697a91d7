"""Say how long an experiment's windows are and how long it will take.

Called by plan before the start (status, maxDuration, the demo's budget) and before every epoch. Every time is
in seconds of the engines' clock; W and M are rounded up to the grid on which agents keep their counters.
Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvtune_api.wire import GRID_SECONDS

DRAIN_S = 20.0
"""Least washout: the queue must drain."""

LEAST_WINDOW_S = 120.0
SMALL_EFFECT_WINDOW_S = 300.0
REQUESTS_HEADROOM = 1.1
"""Traffic varies: a window that expects just minRequests would miss them in every other epoch."""

FILLS_WITHOUT_RECENCY = 3.0
"""Policies other than LRU and FIFO forget more slowly: so many fill times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Hold the least and the greatest length that the settings allow, in seconds."""

    min_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFill:
    """Hold what decides how long an arm's cache takes to forget.

    insert_bytes_per_s is the incumbent's measured rate for both arms; None or 0 where unknown, then the TTL
    alone counts. recency: the eviction policy is LRU or FIFO."""

    ttl_s: float
    capacity_bytes: float
    insert_bytes_per_s: float | None
    recency: bool = True

    @property
    def forgets_after_s(self) -> float:
        """Return min(TTL, fill time)."""
        if self.insert_bytes_per_s is None or self.insert_bytes_per_s <= 0.0:
            return self.ttl_s
        fill = self.capacity_bytes / self.insert_bytes_per_s
        return min(self.ttl_s, fill if self.recency else FILLS_WITHOUT_RECENCY * fill)


def washout_s(arms: Sequence[ArmFill], bounds: Bounds) -> float:
    """Return W = max over both arms of min(TTL, fill time), at least 20 s, within bounds, on the grid."""
    wanted = max((arm.forgets_after_s for arm in arms), default=0.0)
    return _bounded(max(wanted, DRAIN_S), bounds)


def measuring_window_s(
    arm_requests_per_s: float,
    bounds: Bounds,
    *,
    min_requests: float = 500.0,
    effect_over_sd: float | None = None,
) -> float:
    """Return M = max(120 s, time for minRequests per arm and epoch), within bounds, on the grid.

    arm_requests_per_s is summed over the arm's pairs. At least 300 s once the last |effect|/sd was below 1.
    Without traffic it is the upper bound."""
    least = LEAST_WINDOW_S
    if effect_over_sd is not None and abs(effect_over_sd) < 1.0:
        least = SMALL_EFFECT_WINDOW_S
    enough = REQUESTS_HEADROOM * min_requests / arm_requests_per_s if arm_requests_per_s > 0.0 else math.inf
    return _bounded(max(least, enough), bounds)


def _bounded(wanted_s: float, bounds: Bounds) -> float:
    """Return a length within bounds and on the grid: rounded up, but down where that would pass the upper
    bound."""
    if not 0.0 < bounds.min_s <= bounds.max_s < math.inf:
        raise ValueError(f"bounds: {bounds.min_s} s to {bounds.max_s} s is no range above 0 s")
    within = min(max(wanted_s, bounds.min_s), bounds.max_s)
    up = math.ceil(round(within / GRID_SECONDS, 9)) * GRID_SECONDS
    if up > bounds.max_s and up - GRID_SECONDS >= max(bounds.min_s, GRID_SECONDS):
        up -= GRID_SECONDS
    return float(up)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Hold what an experiment's length follows from. pairs are Deltas; run_in_blocks is 0 or 2."""

    washout_s: float
    window_s: float
    pairs: int
    pairs_per_block: int
    run_in_blocks: int = 0
    watch_windows: int = 2
    preparation_s: float = 0.0


def estimated_duration_s(timing: Timing) -> float:
    """Return preparation + run-in + 2 ceil(pairs/pairsPerBlock)(W+M) + watch (W + k M)."""
    epoch = timing.washout_s + timing.window_s
    run_in = 2 * timing.run_in_blocks * epoch
    watch = timing.washout_s + timing.watch_windows * timing.window_s
    blocks = math.ceil(timing.pairs / timing.pairs_per_block)
    return timing.preparation_s + run_in + 2 * blocks * epoch + watch


def shortest_duration_s(timing: Timing, min_pairs: int) -> float:
    """Return 2 ceil(minPairs/pairsPerBlock)(W+M) + W + k M (and run-in): no promotion can be sooner.

    With two watch windows this is the demo's rule for whether another experiment fits into the time left.
    """
    blocks = math.ceil(min_pairs / timing.pairs_per_block)
    epoch = timing.washout_s + timing.window_s
    watch = timing.washout_s + timing.watch_windows * timing.window_s
    return timing.preparation_s + 2 * (timing.run_in_blocks + blocks) * epoch + watch
