"""Propose another eviction policy, with a TTL that leaves it something to choose.

Called by unmodelled.py and the ladder: the reuse model knows recency alone and predicts nothing across
policies, so there is only the experiment. Policies are tried in the order in which the user wrote them, each
once while the workload stays: one that has lost, or was replaced, is not tried again because a TTL has moved.

A policy chooses only in a full tier. Where the model says that the TTL frees blocks before they could stay
for twice as long as recency keeps them (T_c of reuse_model.py), the longest TTL within one step comes with
the policy; where the tier would not fill even then, no policy is worth an experiment. Without reuse ages,
or without the knob, a policy is tried alone. Pure.
"""

from collections.abc import Sequence

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.names import Outcome
from kvtune_api.policy import Strategy
from kvtune_api.status import Trial
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import steps_written, with_values
from kvtune_tuner.denylist import current, lost
from kvtune_tuner.proposal import Candidate, NotAvailable, NothingToTry, Request
from kvtune_tuner.reuse_model import age_full_s, pool

ROOM_TO_CHOOSE = 2.0
"""A TTL below so many T_c frees what a better policy would keep (chosen: twice as long as recency does)."""


def propose_by_switch(request: Request) -> Candidate | NothingToTry:
    """Name the incumbent with the next policy that was not beaten under the present workload."""
    axis = next((axis for axis in request.space.axes if axis.knob is Knob.EVICTION_POLICY), None)
    if axis is None:
        return NothingToTry(reason="no other eviction policy is among the choices")
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    out = {knobs.point(request.incumbent).get(axis.knob), *beaten(request.trials, axis.knob)}
    number = next((number for number in axis.choices if number not in out), None)
    if number is None:
        return NothingToTry(reason=f"each of {len(axis.choices)} eviction policies runs or has lost")
    return _with_room(request, with_values(request.incumbent, {axis.knob: number}))


def beaten(trials: Sequence[Trial], knob: Knob) -> frozenset[float]:
    """Give the values of a knob that experiments between two of them showed to be no better, or worse."""
    return frozenset(value for trial in current(trials) if (value := _loser(trial, knob)) is not None)


def _loser(trial: Trial, knob: Knob) -> float | None:
    candidate, incumbent = (knobs.point(config).get(knob) for config in (trial.candidate, trial.incumbent))
    if candidate == incumbent:
        return None
    if lost(trial):
        return candidate
    return incumbent if trial.outcome is Outcome.PROMOTED else None


def _with_room(request: Request, config: CacheConfig) -> Candidate | NothingToTry:
    """Give another policy the longest TTL within one step where this one leaves it little to choose."""
    ttl, full_s = knobs.point(config).get(Knob.CACHE_TTL), _age_full_s(request)
    if ttl is None or full_s is None or ttl >= ROOM_TO_CHOOSE * full_s:
        return _candidate(request, config, "another eviction policy alone")
    side = next(
        (s for s in step_box(request.space, request.incumbent).sides if s.knob is Knob.CACHE_TTL), None
    )
    longest = ttl if side is None else max(side.high, ttl)
    if longest < full_s:
        return NothingToTry(
            reason=f"a TTL of {longest:.0f} s frees blocks before the tier is full (after {full_s:.0f} s):"
            " no eviction policy has anything to choose"
        )
    if longest == ttl:
        return _candidate(request, config, "another eviction policy alone")
    why = f"a policy chooses in a full tier, and this one holds what the last {full_s:.0f} s asked for"
    return _candidate(request, with_values(config, {Knob.CACHE_TTL: longest}), why)


def _age_full_s(request: Request) -> float | None:
    reuse = pool(request.reports)
    if isinstance(reuse, NotAvailable):
        return None
    age = age_full_s(reuse, request.incumbent)
    return None if isinstance(age, NotAvailable) else age


def _candidate(request: Request, config: CacheConfig, why: str) -> Candidate:
    return Candidate(
        config=config,
        strategy=Strategy.LADDER,
        why=f"{steps_written(request.incumbent, config)}: {why}",
    )
