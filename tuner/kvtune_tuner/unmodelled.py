"""Propose what the reuse model knows nothing of: another eviction policy, or another store threshold.

Called by candidate.py once the model has no more to say than it can be trusted with. One after the other:
policies first; after one was promoted the threshold has its turn before the policies that are left.
Thresholds are tried alone, one step up and then one down, each once while the workload stays. Pure.
"""

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.names import Outcome
from kvtune_api.policy import Strategy
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import steps_written, with_values
from kvtune_tuner.denylist import current
from kvtune_tuner.other_policy import beaten, propose_by_switch
from kvtune_tuner.proposal import Candidate, NothingToTry, Request


def propose_unmodelled(request: Request) -> Candidate | NothingToTry:
    """Name the next policy or threshold that was not beaten under the present workload."""
    turns = (propose_by_switch, propose_by_threshold)
    refusals = []
    for propose in reversed(turns) if _a_policy_has_won(request) else turns:
        answer = propose(request)
        if isinstance(answer, Candidate):
            return answer
        refusals.append(answer.reason)
    return NothingToTry(reason="; ".join(refusals))


def propose_by_threshold(request: Request) -> Candidate | NothingToTry:
    """Name the incumbent with the store threshold one step up, or else down."""
    knob = Knob.STORE_THRESHOLD
    if knob not in request.space.knobs:
        return NothingToTry(reason="no store threshold is tuned")
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    side = next(side for side in step_box(request.space, request.incumbent).sides if side.knob is knob)
    out = {side.current, *beaten(request.trials, knob)}
    value = next((value for value in (side.high, side.low) if value not in out), None)
    if value is None:
        return NothingToTry(reason="each store threshold within one step runs or has lost")
    config = with_values(request.incumbent, {knob: value})
    why = f"{steps_written(request.incumbent, config)}: another store threshold alone"
    return Candidate(config=config, strategy=Strategy.LADDER, why=why)


def _a_policy_has_won(request: Request) -> bool:
    """Whether the incumbent's policy was promoted over another one under the present workload."""
    return any(
        trial.outcome is Outcome.PROMOTED and _policy(trial.candidate) != _policy(trial.incumbent)
        for trial in current(request.trials)
    )


def _policy(config: CacheConfig) -> float | None:
    return knobs.point(config).get(Knob.EVICTION_POLICY)
