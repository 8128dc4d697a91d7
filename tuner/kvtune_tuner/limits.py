"""The limits of the breaker. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """Hold the breaker's limits; shares are in [0, 1]. With these [sim] 0 of 300 false trips."""

    long_s: float = 300.0
    short_s: float = 60.0
    warm_up_s: float = 60.0
    least_requests: float = 50.0
    """Per arm and span."""

    budget_factor: float = 2.0
    """Times the share of slow requests that the target allows."""

    over_control: float = 0.15
    over_control_when_violated: float = 0.30
    over_control_in_pair: float = 0.10
    least_pairs_share: float = 0.5
    """Of the pairs, so many must have data."""

    unreachable_s: float = 15.0
    """Three ticks of 5 s."""

    error_share_over_control: float = 0.05
    least_errors: float = 5.0

    least_restarts: int = 3
    """Of candidate agents: one or two engines die for reasons of their own."""

    restarts_over_control: int = 3
    """So many more than in the control arm, which meets every other cause (upgrades, nodes) as often."""

    restarts_over_control_sd: float = 1.7
    """And so many times the root of all restarts, their sd if arms are alike: 3 against 0 is beyond it."""

    least_repeated_restarts: int = 1
    """Of candidate agents that had restarted before: a rolling upgrade restarts each agent only once, and
    may take some of one arm first."""
