"""Judge whether the data of an experiment may be used at all, blind to which arm is the candidate.

Called by plan and replay. Every rule that drops a pair or a block gives the same answer when any pair's two
agents change arms: that keeps the coin's symmetry, on which the test rests. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvtune_tuner.effect import hit_rate
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts, pooled


class IssueReason(StrEnum):
    """Say which gate an experiment as a whole does not pass."""

    SAMPLE_RATIO = "SampleRatio"
    CONFIG_DRIFT = "ConfigDrift"
    TOO_FEW_REQUESTS = "TooFewRequests"
    NOT_STATIONARY = "NotStationary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Hold why an experiment may not promote now."""

    reason: IssueReason
    message: str


class RatioStanding(StrEnum):
    """Say how the sample ratio stands."""

    OK = "Ok"
    MISMATCH = "Mismatch"
    NOT_AVAILABLE = "NotAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRatio:
    """Hold the sample-ratio test; p_value is always valid, None where sessions are not counted."""

    standing: RatioStanding
    message: str
    p_value: float | None = None


def sample_ratio_issue(ratio: SampleRatio) -> Issue | None:
    """Return the issue for the verdict on a mismatch, else None."""
    if ratio.standing is not RatioStanding.MISMATCH:
        return None
    return Issue(reason=IssueReason.SAMPLE_RATIO, message=ratio.message)


PRIOR_SESSIONS = 100.0
"""Weight of the prior: deviations of about 5 points are expected under the alternative."""


def sample_ratio(
    candidate_roots: float | None, control_roots: float | None, *, alpha: float = 0.001
) -> SampleRatio:
    """Return whether both arms got the same share of new session roots, over whole blocks so far.

    In a whole block each agent serves both arms once, so 1 : 1 is expected however uneven the routing is. The
    test is the sequential multinomial one of arXiv 2011.03567: a Bayes factor with a Dirichlet prior around
    the expected ratio, a martingale under it, so it may be looked at after every block. Raises ValueError for
    a bad count."""
    if candidate_roots is None or control_roots is None:
        return SampleRatio(
            standing=RatioStanding.NOT_AVAILABLE, message="agents do not count new session roots"
        )
    counts = (candidate_roots, control_roots)
    for count in counts:
        if not (math.isfinite(count) and count >= 0.0):
            raise ValueError(f"session roots: {count} is not a count")
    log_factor = _log_bayes_factor(counts)
    p_value = math.exp(-max(log_factor, 0.0))
    message = (
        f"{candidate_roots:.0f} and {control_roots:.0f} new sessions in the arms, "
        f"p {p_value:.3g} against {alpha:g}"
    )
    standing = RatioStanding.MISMATCH if p_value <= alpha else RatioStanding.OK
    return SampleRatio(standing=standing, message=message, p_value=p_value)


def _log_bayes_factor(counts: Sequence[float]) -> float:
    """Return log of the Dirichlet-multinomial likelihood over that of equal shares."""
    prior = PRIOR_SESSIONS / len(counts)
    total = math.fsum(counts)
    log_factor = (
        math.lgamma(PRIOR_SESSIONS) - math.lgamma(PRIOR_SESSIONS + total) + total * math.log(len(counts))
    )
    return log_factor + math.fsum(math.lgamma(prior + count) - math.lgamma(prior) for count in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEpoch:
    """Hold what one agent did in one measuring window.

    generation is the push generation that it ran throughout, None if it ran several or did not say. halves
    are the counts of the window's two halves, None where no sample was taken in the middle."""

    agent: str
    counts: WindowCounts | Missing
    expected_generation: int
    generation: int | None
    halves: tuple[WindowCounts | Missing, WindowCounts | Missing] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEpoch:
    """Hold one pair in one epoch."""

    candidate: AgentEpoch
    control: AgentEpoch

    @property
    def agents(self) -> tuple[AgentEpoch, AgentEpoch]:
        """Return both agents by name, so that a rule cannot see the arms."""
        if self.candidate.agent <= self.control.agent:
            return self.candidate, self.control
        return self.control, self.candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityLimits:
    """Hold the gates' limits. The two changes are safety nets of ours against a window with a break in it."""

    min_requests: float = 500.0
    """Per arm and epoch, over the arm's pairs."""

    max_rate_change: float = 0.5
    """Largest relative change of a pair's request rate from the first to the second half of a window."""

    max_hit_rate_change: float = 0.2
    """Largest change of a pair's hit rate between the halves."""


def pair_drop(epochs: Sequence[PairEpoch], limits: QualityLimits | None = None) -> Missing | None:
    """Return why a pair does not count in its block, None if it does. One bad epoch drops the whole block's
    pair."""
    limits = limits or QualityLimits()
    for epoch in epochs:
        for agent in epoch.agents:
            if (drop := _agent_drop(agent)) is not None:
                return drop
    for epoch in epochs:
        if (drop := _unsteady(epoch, limits)) is not None:
            return drop
    return None


def _agent_drop(agent: AgentEpoch) -> Missing | None:
    """Return why one agent's window is of no use."""
    counts = agent.counts
    if isinstance(counts, Missing):
        return Missing(reason=counts.reason, message=f"{agent.agent}: {counts.message}")
    if agent.generation != agent.expected_generation:
        ran = "no single generation" if agent.generation is None else f"generation {agent.generation}"
        return Missing(
            reason=MissingReason.CONFIG_DRIFT,
            message=f"{agent.agent}: ran {ran} instead of {agent.expected_generation}",
        )
    if counts.reset:
        return Missing(
            reason=MissingReason.RESTARTED, message=f"{agent.agent}: its counters began anew in the window"
        )
    rate = hit_rate(counts)
    if isinstance(rate, Missing):
        return Missing(reason=rate.reason, message=f"{agent.agent}: {rate.message}")
    return None


def _unsteady(epoch: PairEpoch, limits: QualityLimits) -> Missing | None:
    """Return why a window of the pair is not stationary; unknown halves say nothing."""
    left, right = epoch.agents
    if left.halves is None or right.halves is None:
        return None
    halves: list[WindowCounts] = []
    for a, b in zip(left.halves, right.halves, strict=True):
        if isinstance(a, Missing) or isinstance(b, Missing):
            return None
        both = pooled((a, b))
        if isinstance(both, Missing):
            return None
        halves.append(both)
    change = stationarity(halves[0], halves[1], limits)
    if change is None:
        return None
    return Missing(reason=change.reason, message=f"{left.agent}, {right.agent}: {change.message}")


def stationarity(first: WindowCounts, second: WindowCounts, limits: QualityLimits) -> Missing | None:
    """Return how the first and the second half of a window differ too much, None if they do not.

    A rate change counts only beyond four Poisson standard errors as well, so that little traffic is no break.
    """
    if first.requests is not None and second.requests is not None and first.seconds > 0.0 < second.seconds:
        rates = first.requests / first.seconds, second.requests / second.seconds
        error = math.sqrt(first.requests / first.seconds**2 + second.requests / second.seconds**2)
        change = abs(rates[1] - rates[0])
        if change > limits.max_rate_change * max(rates) and change > 4.0 * error:
            return Missing(
                reason=MissingReason.NOT_STATIONARY,
                message=f"{rates[0]:.3g} then {rates[1]:.3g} requests/s, "
                f"a change of more than {limits.max_rate_change:.0%}",
            )
    hits = hit_rate(first), hit_rate(second)
    if isinstance(hits[0], Missing) or isinstance(hits[1], Missing):
        return None
    if abs(hits[1] - hits[0]) > limits.max_hit_rate_change:
        return Missing(
            reason=MissingReason.NOT_STATIONARY,
            message=f"hit rate {hits[0]:.3f} then {hits[1]:.3f}, "
            f"a change of more than {limits.max_hit_rate_change:g}",
        )
    return None


def block_drop(pairs: Sequence[Sequence[PairEpoch]], limits: QualityLimits | None = None) -> Missing | None:
    """Return why a block does not count for any pair: too few requests per arm in an epoch.

    `pairs` are those left after pair_drop, each with its epochs. The mean of both arms must reach
    min_requests, and the sum over pairs of the pair's smaller side half of it; neither figure changes when a
    pair's agents change arms, which a smaller-arm rule would."""
    limits = limits or QualityLimits()
    if not pairs:
        return Missing(reason=MissingReason.NO_DATA, message="no pair of the block is left")
    for number, epoch in enumerate(zip(*pairs, strict=True), start=1):
        per_arm, smaller = 0.0, 0.0
        for pair in epoch:
            left, right = (_requests(agent) for agent in pair.agents)
            if isinstance(left, Missing):
                return left
            if isinstance(right, Missing):
                return right
            per_arm += (left + right) / 2.0
            smaller += min(left, right)
        if per_arm < limits.min_requests or smaller < limits.min_requests / 2.0:
            return Missing(
                reason=MissingReason.TOO_FEW_REQUESTS,
                message=f"epoch {number}: {per_arm:.0f} requests per arm, {smaller:.0f} on the pairs' "
                f"smaller sides; minRequests is {limits.min_requests:.0f}",
            )
    return None


def _requests(agent: AgentEpoch) -> float | Missing:
    if isinstance(agent.counts, Missing):
        return agent.counts
    if agent.counts.requests is None:
        return Missing(reason=MissingReason.NOT_AVAILABLE, message=f"{agent.agent}: requests are not counted")
    return agent.counts.requests
