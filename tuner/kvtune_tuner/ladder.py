"""Climb toward more reuse: all knobs together while that wins, then each knob alone, both ways.

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
from kvtune_tuner.configs import same_config, steps_written
from kvtune_tuner.denylist import current, denied, lost
from kvtune_tuner.proposal import Candidate, NothingToTry, Request
from kvtune_tuner.space import Space, step_box

SINGLE_MAX_PAIRS = 12
"""Deltas after which a single knob's experiment gives up (experiments.md 10)."""

_TOWARD_REUSE = {Knob.CACHE_TTL: +1, Knob.EVICTION_RATIO: -1, Knob.HOST_MEMORY: +1}
"""Which way each knob keeps blocks longer."""

_ORDER = (Knob.HOST_MEMORY, Knob.EVICTION_RATIO, Knob.CACHE_TTL)
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
    space, incumbent = request.space, request.incumbent
    problem = space.problem(incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    deny = denied(request.trials, incumbent)
    for move in _moves(request):
        config = move.applied(space, incumbent)
        if not same_config(config, incumbent) and deny.reason(config) is None:
            return _candidate(request, move, config)
    return NothingToTry(
        reason="ladder: no step is left, of all knobs or of one"
        f" ({len(deny.entries)} configurations are denied)"
    )


def _moves(request: Request) -> Iterator[Move]:
    """List the rungs: together until that has lost, the last winner again, then all single moves."""
    trials = [trial for trial in current(request.trials) if trial.strategy == Strategy.LADDER]
    together = _together(request.space)
    if not any(lost(trial) and _is(together, trial, request.space) for trial in trials):
        yield together
    singles = _singles(request.space, request.spec.objective.prices)
    if trials and trials[-1].outcome is Outcome.PROMOTED:
        yield from (move for move in singles if _is(move, trials[-1], request.space))
    yield from singles


def _together(space: Space) -> Move:
    return Move(ways={knob: _TOWARD_REUSE[knob] for knob in space.knobs})


def _singles(space: Space, prices: Prices) -> tuple[Move, ...]:
    """List both ways of each knob: priced knobs first and their cheaper way first, else more reuse first."""
    cheaper: dict[Knob, int] = {}
    if prices.memory > 0:
        cheaper[Knob.HOST_MEMORY] = -1
    if prices.eviction_pass > 0:
        cheaper[Knob.EVICTION_RATIO] = +1
    if prices.bytes_down > 0:
        cheaper[Knob.CACHE_TTL] = +1
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
