"""Turn a window's counts into the figures that decide: hit rate, objective Y, and a pair's Delta.

Called by plan and replay. Everything is a float or Missing with a reason. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

GIB = 2**30


def hit_rate(window: WindowCounts) -> float | Missing:
    """Return hit tokens over prompt tokens, device and lower tiers, over all prompt tokens; in [0, 1]."""
    if window.prompt_tokens is None or window.hit_tokens is None:
        return Missing(reason=MissingReason.NOT_AVAILABLE, message="prompt or hit tokens are not counted")
    if window.prompt_tokens <= 0.0 or window.requests == 0.0:
        return Missing(
            reason=MissingReason.NO_TRAFFIC, message=f"no prompt token in a window of {window.seconds:g} s"
        )
    if window.hit_tokens > window.prompt_tokens:
        return Missing(
            reason=MissingReason.INCONSISTENT,
            message=f"{window.hit_tokens:g} hit tokens are more than {window.prompt_tokens:g} prompt tokens",
        )
    return window.hit_tokens / window.prompt_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Hold what the objective charges, in hit-rate points (hundredths) per unit; 0 charges nothing."""

    memory: float = 0.0
    """Per GiB configured in the priced tiers."""

    eviction_pass: float = 0.0
    """Per eviction pass a minute."""

    bytes_down: float = 0.0
    """Per GiB written down a minute."""


def objective(window: WindowCounts, *, gib_configured: float, prices: Prices) -> float | Missing:
    """Return Y of one agent and window: hit rate - .01 x (prices x units), see docs/experiments.md.

    A priced counter that is not reported makes Y missing; one whose price is 0 is not needed.
    """
    rate = hit_rate(window)
    if isinstance(rate, Missing):
        return rate
    if not window.seconds > 0.0:
        return Missing(reason=MissingReason.NO_DATA, message=f"window: {window.seconds:g} s is not above 0 s")
    minutes = window.seconds / 60.0
    points = prices.memory * gib_configured
    for price, count, unit, name in (
        (prices.eviction_pass, window.eviction_passes, 1.0, "eviction passes"),
        (prices.bytes_down, window.bytes_down, float(GIB), "bytes written down"),
    ):
        if price == 0.0:
            continue
        if count is None:
            return Missing(
                reason=MissingReason.NOT_AVAILABLE, message=f"{name} have a price but are not counted"
            )
        points += price * count / unit / minutes
    value = rate - 0.01 * points
    if not math.isfinite(value):
        return Missing(reason=MissingReason.NAN, message="the objective is not a finite number")
    return value


def pair_delta(
    first: tuple[float | Missing, float | Missing], second: tuple[float | Missing, float | Missing]
) -> float | Missing:
    """Return Delta = (D1 + D2) / 2 of one pair and block from (candidate, control) of both epochs."""
    return _mean_difference(first, second)


def pair_difference(
    first: tuple[float | Missing, float | Missing], second: tuple[float | Missing, float | Missing]
) -> float | Missing:
    """Return the pair's own difference in one block, from (one agent, the other) of both epochs.

    Each agent runs the candidate in one epoch, so the arms' effect cancels. The watch subtracts it.
    """
    return _mean_difference(first, second)


def _mean_difference(*epochs: tuple[float | Missing, float | Missing]) -> float | Missing:
    missing = [value for epoch in epochs for value in epoch if isinstance(value, Missing)]
    if missing:
        return min(missing, key=lambda value: (value.reason, value.message))  # blind to which arm lacks it
    values = [value for epoch in epochs for value in epoch if not isinstance(value, Missing)]
    total = math.fsum(values[0::2]) - math.fsum(values[1::2])
    if not math.isfinite(total):
        return Missing(reason=MissingReason.NAN, message="a value of the pair is not a finite number")
    return total / len(epochs)
