"""Choose who names the next candidate. Called by plan when a policy rests; the experiment decides.

Strategy Auto asks the reuse model first, each time; when that has nothing to say other eviction policies and
store thresholds are tried, then the ladder; then Optuna, until eight of its candidates in a row have lost
within 24 h. In Auto a
candidate of the ladder or of Optuna that the model predicts to be clearly worse is passed over: users should
not be exposed to it only to learn what is known (docs/adr/0003). Whoever proposes, the model's prediction is
kept beside the measurement; across eviction policies and store thresholds it has none. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from kvtune_api.knobs import CacheConfig, EvictionPolicy, point
from kvtune_api.policy import Prices, Strategy
from kvtune_api.wire import Report
from kvtune_tuner.configs import evicts_by, with_values
from kvtune_tuner.denylist import losses_in_a_row
from kvtune_tuner.ladder import propose_by_ladder
from kvtune_tuner.proportional import propose_by_rule
from kvtune_tuner.proposal import MEMORY_OF_LOSSES, Candidate, NotAvailable, NothingToTry, Request
from kvtune_tuner.propose import propose_by_optuna
from kvtune_tuner.reuse_model import MODELLED, comparable, pool, predict
from kvtune_tuner.reuse_proposal import propose_by_reuse
from kvtune_tuner.unmodelled import propose_unmodelled

OPTUNA_LOSSES = 8
"""Losses in a row after which Auto lets Optuna rest (chosen: one and a half TPE start-ups)."""


CLEARLY_WORSE = -0.02
"""Predicted loss in the objective from which Auto passes a candidate over: the smallest guardrail margin."""

TRUSTED_GAIN = 0.03
"""Predicted gain from which the model is followed under FIFO, which a TTL makes forget by recency, too (the
demo's: +.053 predicted, +.050 measured; +.010 predicted, -.090 measured)."""

NOTHING = NothingToTry(reason="other policies and thresholds were not asked for")

VETO_ATTEMPTS = 8
"""How many candidates of Optuna may be passed over before it counts as having none."""


def next_candidate(request: Request) -> Candidate | NothingToTry:
    """Name the next candidate by the policy's strategy with its prediction, or say why there is none."""
    found = _by_strategy(request)
    return _predicted(request, found) if isinstance(found, Candidate) else found


def _predicted(request: Request, candidate: Candidate) -> Candidate:
    prices = request.spec.objective.prices
    return with_prediction(candidate, request.reports, prices, request.incumbent)


def with_prediction(
    candidate: Candidate, reports: Sequence[Report], prices: Prices, incumbent: CacheConfig
) -> Candidate:
    """The candidate with the reuse model's prediction, where it has none and the model has one."""
    if candidate.predicted_gain is not None or not comparable(incumbent, candidate.config):
        return candidate
    reuse = pool(reports)
    if isinstance(reuse, NotAvailable):
        return candidate
    base, new = (predict(reuse, prices, config) for config in (incumbent, candidate.config))
    if isinstance(base, NotAvailable) or isinstance(new, NotAvailable):
        return candidate
    gain = new.objective - base.objective
    return replace(candidate, predicted_gain=gain, predicted_objective=new.objective)


def _by_strategy(request: Request) -> Candidate | NothingToTry:
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    match request.spec.strategy:
        case Strategy.AUTO:
            return _auto(request)
        case Strategy.REUSE_MODEL:
            found = propose_by_reuse(request)
            return NothingToTry(reason=found.reason) if isinstance(found, NotAvailable) else found
        case Strategy.LADDER:
            return propose_by_ladder(request)
        case Strategy.OPTUNA:
            return propose_by_optuna(request)
        case Strategy.PROPORTIONAL:
            return propose_by_rule(request)


def _auto(request: Request) -> Candidate | NothingToTry:
    """Ask one proposer after the other.

    Where the model has said all that it can, other policies and thresholds are what it knows nothing of; its
    gains under a policy that it does not know come after them. Where it is not there, they wait for the
    ladder.
    """
    answer: Candidate | NothingToTry | NotAvailable = propose_by_reuse(request)
    if isinstance(answer, Candidate):
        other = NOTHING if _trusted(request, answer) else propose_unmodelled(request)
        return other if isinstance(other, Candidate) else answer
    refusals = [answer]
    rest = (_ladder_worth_it, _optuna_worth_it)
    for propose in rest if isinstance(answer, NotAvailable) else (propose_unmodelled, *rest):
        answer = propose(request)
        if isinstance(answer, Candidate):
            return answer
        refusals.append(answer)
    retries = [r.retry_at for r in refusals if isinstance(r, NothingToTry) and r.retry_at is not None]
    return NothingToTry(
        reason="; ".join(refusal.reason for refusal in refusals), retry_at=min(retries, default=None)
    )


def _trusted(request: Request, candidate: Candidate) -> bool:
    """Whether the model's gain goes before what it knows nothing of: any under LRU, a large one under FIFO.

    A policy that knows more than recency has already won what a larger tier would win under LRU.
    """
    match evicts_by(request.incumbent, request.reports):
        case None | EvictionPolicy.LRU:
            return True
        case EvictionPolicy.FIFO:
            return (candidate.predicted_gain or 0.0) >= TRUSTED_GAIN
        case _:
            return False


def _clearly_worse(request: Request, candidate: Candidate) -> float | None:
    """The predicted loss of a candidate that is not worth an exposure; None for one that is.

    Of one with another policy or threshold that is judged which the model knows: its other knobs.
    """
    known = {knob: value for knob, value in point(candidate.config).items() if knob in MODELLED}
    judged = replace(candidate, config=with_values(request.incumbent, known), predicted_gain=None)
    gain = _predicted(request, judged).predicted_gain
    return gain if gain is not None and gain < CLEARLY_WORSE else None


def _ladder_worth_it(request: Request) -> Candidate | NothingToTry:
    found = propose_by_ladder(request)
    if isinstance(found, NothingToTry) or (loss := _clearly_worse(request, found)) is None:
        return found
    return NothingToTry(reason=f"the ladder's next step is predicted to change Y by {loss:+.3f}")


def _optuna_worth_it(request: Request) -> Candidate | NothingToTry:
    for attempt in range(VETO_ATTEMPTS):
        found = _optuna_with_rests(replace(request, seed=request.seed + attempt))
        if isinstance(found, NothingToTry) or _clearly_worse(request, found) is None:
            return found
    return NothingToTry(reason=f"{VETO_ATTEMPTS} candidates of Optuna are predicted to lose over 0.02 in Y")


def _optuna_with_rests(request: Request) -> Candidate | NothingToTry:
    lost = losses_in_a_row(request.trials, Strategy.OPTUNA, request.now - MEMORY_OF_LOSSES)
    if len(lost) >= OPTUNA_LOSSES:
        retry_at = lost[OPTUNA_LOSSES - 1].ended_at + MEMORY_OF_LOSSES
        return NothingToTry(
            reason=f"Optuna rests after {len(lost)} losses in a row, until {retry_at:%Y-%m-%d %H:%M:%S}"
            " or until the workload shifts",
            retry_at=retry_at,
        )
    return propose_by_optuna(request)
