"""Choose who names the next candidate. Called by plan when a policy rests; the experiment decides.

Strategy Auto asks the reuse model first, each time; when that has nothing to say the ladder; then Optuna,
until eight of its candidates in a row have lost within 24 h. Pure.
"""

from kvtune_api.policy import Strategy
from kvtune_tuner.denylist import losses_in_a_row
from kvtune_tuner.ladder import propose_by_ladder
from kvtune_tuner.proportional import propose_by_rule
from kvtune_tuner.proposal import MEMORY_OF_LOSSES, Candidate, NotAvailable, NothingToTry, Request
from kvtune_tuner.propose import propose_by_optuna
from kvtune_tuner.reuse_proposal import propose_by_reuse

OPTUNA_LOSSES = 8
"""Losses in a row after which Auto lets Optuna rest (chosen: one and a half TPE start-ups)."""


def next_candidate(request: Request) -> Candidate | NothingToTry:
    """Name the next candidate by the policy's strategy, or say why there is none."""
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
    refusals: list[NothingToTry | NotAvailable] = []
    for propose in (propose_by_reuse, propose_by_ladder, _optuna_with_rests):
        answer = propose(request)
        if isinstance(answer, Candidate):
            return answer
        refusals.append(answer)
    retries = [r.retry_at for r in refusals if isinstance(r, NothingToTry) and r.retry_at is not None]
    return NothingToTry(
        reason="; ".join(refusal.reason for refusal in refusals), retry_at=min(retries, default=None)
    )


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
