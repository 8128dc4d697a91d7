"""Propose another eviction policy, and nothing else with it.

Called by the ladder, and by candidate.py once the reuse model has no more to say: the model knows recency
alone and predicts nothing across policies, so there is only the experiment. Policies are tried in the order
in which the user wrote them, each once while the workload stays: one that has lost, or was replaced, is not
tried again because a TTL has moved. Pure.
"""

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.names import Outcome
from kvtune_api.policy import Strategy
from kvtune_api.status import Trial
from kvtune_tuner.configs import steps_written, with_values
from kvtune_tuner.denylist import current, lost
from kvtune_tuner.proposal import Candidate, NothingToTry, Request


def propose_by_switch(request: Request) -> Candidate | NothingToTry:
    """Name the incumbent with the next policy that was not beaten under the present workload."""
    axis = next((axis for axis in request.space.axes if axis.knob is Knob.EVICTION_POLICY), None)
    if axis is None:
        return NothingToTry(reason="no other eviction policy is among the choices")
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    out = {_number(request.incumbent), *(_beaten(trial) for trial in current(request.trials))}
    for number in axis.choices:
        if number not in out:
            return _candidate(request, with_values(request.incumbent, {axis.knob: number}))
    return NothingToTry(reason=f"each of {len(axis.choices)} eviction policies runs or has lost")


def _number(config: CacheConfig) -> float | None:
    return knobs.point(config).get(Knob.EVICTION_POLICY)


def _beaten(trial: Trial) -> float | None:
    """Give the policy that an experiment between two policies showed to be no better; None for any other."""
    candidate, incumbent = _number(trial.candidate), _number(trial.incumbent)
    if candidate == incumbent:
        return None
    if lost(trial):
        return candidate
    return incumbent if trial.outcome is Outcome.PROMOTED else None


def _candidate(request: Request, config: CacheConfig) -> Candidate:
    return Candidate(
        config=config,
        strategy=Strategy.LADDER,
        why=f"{steps_written(request.incumbent, config)}: another eviction policy alone",
    )
