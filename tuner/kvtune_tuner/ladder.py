"""Climb toward more reuse: all knobs together while that wins, then other policies, then each knob alone.

Called by candidate.py where the reuse model has nothing to say (experiments.md 10). The position on the
ladder is read from the ended experiments alone, so a restarted control plane climbs on from there. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.names import Outcome
from kvtune_api.policy import PolicySpec, Prices, Strategy
from kvtune_api.status import Trial
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import same_config, steps_written
from kvtune_tuner.denylist import current, denied, lost
from kvtune_tuner.other_policy import propose_by_switch
from kvtune_tuner.proposal import Candidate, NothingToTry, Request
from kvtune_tuner.space import Space

SINGLE_MAX_PAIRS = 12
"""Deltas after which a single knob's experiment gives up (experiments.md 10)."""

_TOWARD_REUSE = {
    Knob.CACHE_TTL: +1,
    Knob.EVICTION_RATIO: -1,
    Knob.HOST_MEMORY: +1,
    Knob.STORE_THRESHOLD: -1,
}
"""Which way each knob keeps more blocks, or keeps them longer. An eviction policy has no such way."""

_ORDER = (Knob.HOST_MEMORY, Knob.EVICTION_RATIO, Knob.CACHE_TTL, Knob.STORE_THRESHOLD)
"""The tier first: it holds most of the price and of the effect (experiments.md 9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One largest step of some knobs, up (+1) or down (-1)."""

    ways: dict[Knob, int]

    def applied(self, space: Space, config: CacheConfig) -> CacheConfig:
        """Move a configuration inside its step box; one at a bound stays."""
        values = knobs.point(config)
        steps = {axis.knob: axis.largest_step for axis in space.axes}
        wanted = {knob: values[knob] * steps[knob] ** way for knob, way in self.ways.items()}
        return step_box(space, config).config(wanted)


def propose_by_ladder(request: Request) -> Candidate | NothingToTry:
    """Name the next rung under this incumbent that has not lost."""
    incumbent = request.incumbent
    problem = request.space.problem(incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    found = _first(request, _all_together(request))
    if found is not None:
        return found
    switch = propose_by_switch(request)
    if isinstance(switch, Candidate):
        return switch
    found = _first(request, _one_by_one(request))
    if found is not None:
        return found
    count = len(denied(request.trials, incumbent).entries)
    return NothingToTry(
        reason=f"ladder: no step is left, of all knobs or of one ({count} configurations are denied)"
    )


def _first(request: Request, moves: Iterator[Move]) -> Candidate | None:
    """Name the first move that goes anywhere and has not lost under this incumbent."""
    deny = denied(request.trials, request.incumbent)
    for move in moves:
        config = move.applied(request.space, request.incumbent)
        if not same_config(config, request.incumbent) and deny.reason(config) is None:
            return _candidate(request, move, config)
    return None


def _rungs_tried(request: Request) -> list[Trial]:
    return [trial for trial in current(request.trials) if trial.strategy == Strategy.LADDER]


def _all_together(request: Request) -> Iterator[Move]:
    """Give the move of all knobs until it has lost."""
    move = _together(request.space)
    if not any(lost(trial) and _is(move, trial, request.space) for trial in _rungs_tried(request)):
        yield move


def _one_by_one(request: Request) -> Iterator[Move]:
    """List the single moves, the last winner again before all others."""
    trials = _rungs_tried(request)
    singles = _singles(request.space, request.spec.objective.prices)
    if trials and trials[-1].outcome is Outcome.PROMOTED:
        yield from (move for move in singles if _is(move, trials[-1], request.space))
    yield from singles


def _together(space: Space) -> Move:
    return Move(ways={knob: _TOWARD_REUSE[knob] for knob in space.knobs if knob in _TOWARD_REUSE})


def _singles(space: Space, prices: Prices) -> tuple[Move, ...]:
    """List both ways of each knob: priced knobs first and their cheaper way first, else more reuse first."""
    cheaper: dict[Knob, int] = {}
    if prices.memory > 0:
        cheaper[Knob.HOST_MEMORY] = -1
    if prices.eviction_pass > 0:
        cheaper[Knob.EVICTION_RATIO] = +1
    if prices.bytes_down > 0:
        cheaper |= {Knob.CACHE_TTL: +1, Knob.STORE_THRESHOLD: +1}
    ordered = sorted((k for k in _ORDER if k in space.knobs), key=lambda knob: knob not in cheaper)
    first = {knob: cheaper.get(knob, _TOWARD_REUSE[knob]) for knob in ordered}
    return tuple(Move(ways={knob: way}) for knob in ordered for way in (first[knob], -first[knob]))


def _is(move: Move, trial: Trial, space: Space) -> bool:
    """Say whether a trial tested this move, in the space as it is now."""
    if space.problem(trial.incumbent) is not None:
        return False
    return same_config(move.applied(space, trial.incumbent), trial.candidate)


def _candidate(request: Request, move: Move, config: CacheConfig) -> Candidate:
    single = len(move.ways) == 1 and len(request.space.axes) > 1
    upward = move.ways == {knob: _TOWARD_REUSE[knob] for knob in move.ways}
    together = f"all knobs one step toward {'more' if upward else 'less'} reuse"
    what = "one knob alone" if single else together
    return Candidate(
        config=config,
        strategy=Strategy.LADDER,
        why=f"{steps_written(request.incumbent, config)}: {what}",
        max_pairs=_single_max_pairs(request.spec) if single else None,
    )


def _single_max_pairs(spec: PolicySpec) -> int:
    settings = spec.experiment
    return max(settings.min_pairs, min(SINGLE_MAX_PAIRS, settings.max_pairs))
