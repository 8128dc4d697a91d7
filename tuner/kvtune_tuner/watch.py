"""Decide after a promotion whether to go back: a safety rule over a few windows, not a test.

One agent of one pair is the holdback and keeps the old configuration. Promoted minus holdback, less the
pair's own difference, is for disasters: [sim] no false revert in 1,049, finds -.26 always and -.04 in .12 to
.37. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvtune_tuner.sli import Missing

LEAST_POINTS = 0.02
ERRORS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRule:
    """Hold what the watch compares with.

    windows: how many windows of M after W are asked for. epochs: how many epochs of the experiment the pair's
    own difference is a mean of. sd_delta: the sd of the objective's Delta."""

    windows: int
    epochs: int
    sd_delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Say that windows are still to come."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Say that the promotion stays."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """Say that the promotion must be taken back."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Say that all windows are over and none had data: nothing passed and nothing failed."""

    message: str


WatchVerdict = Wait | Keep | Revert | Unknown


def revert_threshold(windows: int, epochs: int, sd_delta: float) -> float:
    """Return the loss in Y that reverts: max(2 points, 3 sqrt(1/windows + 1/epochs) sd of an epoch's
    difference).

    The sd of one pair's difference in one epoch is sqrt(2) sd(Delta). Raises ValueError for counts below 1 or
    an sd that is not a number of at least 0."""
    if windows < 1 or epochs < 1:
        raise ValueError(f"watch: {windows} windows and {epochs} epochs, both must be at least 1")
    if not (math.isfinite(sd_delta) and sd_delta >= 0.0):
        raise ValueError(f"watch: sd {sd_delta} is not a number of at least 0")
    sd_epoch = math.sqrt(2.0) * sd_delta
    return max(LEAST_POINTS, ERRORS * math.sqrt(1.0 / windows + 1.0 / epochs) * sd_epoch)


def watch_verdict(
    differences: Sequence[float | Missing], pair_difference: float, rule: WatchRule
) -> WatchVerdict:
    """Return what the windows so far say.

    differences: promoted minus holdback in Y, one per window that is over. pair_difference: the same two
    agents' difference in the experiment, mean over both epochs of each block. Missing windows count as over
    but say nothing; the threshold is that of the windows with data. Raises ValueError as revert_threshold
    does, and for NaN."""
    known = [value for value in differences if not isinstance(value, Missing)]
    if not all(math.isfinite(value) for value in (*known, pair_difference)):
        raise ValueError("watch: a difference is not a finite number")
    threshold = revert_threshold(max(len(known), 1), rule.epochs, rule.sd_delta)
    if len(differences) < rule.windows:
        return Wait(message=f"{len(differences)} of {rule.windows} windows are over")
    if not known:
        return Unknown(message=f"none of {len(differences)} windows had data")
    loss = math.fsum(known) / len(known) - pair_difference
    message = (
        f"promoted minus holdback {loss:+.4f} over {len(known)} windows, "
        f"less the pair's own difference {pair_difference:+.4f}; reverts below {-threshold:.4f}"
    )
    return Revert(message=message) if loss < -threshold else Keep(message=message)
