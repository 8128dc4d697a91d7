"""Name the configuration with the best predicted objective within one step.

Called by candidate.py first, where agents report reuse ages. The model only proposes: its prediction is kept
beside the measurement, and after a loss it may only take small steps, then none (experiments.md 10). Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob
from kvtune_api.policy import Prices, Strategy
from kvtune_api.wire import Report
from kvtune_tuner.box import GRID_LEVELS, Box, Side, step_box
from kvtune_tuner.configs import evicts_by, same_config, steps_written
from kvtune_tuner.denylist import DenyList, denied, losses_in_a_row
from kvtune_tuner.proposal import MEMORY_OF_LOSSES, Candidate, NotAvailable, NothingToTry, Request
from kvtune_tuner.reuse_model import (
    MODELLED,
    Floats,
    Prediction,
    Predictions,
    Reuse,
    comparable,
    completed,
    pool,
    predict,
    predict_many,
)

LEAST_GAIN = 0.005
LEAST_GAIN_IN_NOISE = 0.2
"""No experiment for a predicted gain below the larger of .005 and .2 s0 (experiments.md 10)."""

STEP_AFTER_LOSS = 2.0
LOSSES_AT_STEP = 2
"""After this many losses within the small step the model has nothing more to say."""

ALIKE_HITS = 0.001
ALIKE_COST = 0.05
"""A point that is predicted to hit as often (absolute) at the same passes and memory (relative) as one that
lost is the same to the model: it would only move a knob that has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """Points of the box with their predictions; all arrays of one length."""

    points: dict[Knob, Floats]
    many: Predictions


def propose_by_reuse(request: Request) -> Candidate | NothingToTry | NotAvailable:
    """Name the configuration of the step box with the best predicted objective, if the gain is worth it."""
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    if not any(axis.knob in MODELLED for axis in request.space.axes):
        return NotAvailable(reason="reuse model: no knob that it knows is tuned")
    reuse = pool(request.reports)
    if isinstance(reuse, NotAvailable):
        return reuse
    base = predict(reuse, request.spec.objective.prices, request.incumbent)
    if isinstance(base, NotAvailable):
        return base
    lost = losses_in_a_row(request.trials, Strategy.REUSE_MODEL, request.now - MEMORY_OF_LOSSES)
    allowed = _losses_allowed(request)
    if len(lost) >= allowed:
        retry_at = lost[allowed - 1].ended_at + MEMORY_OF_LOSSES
        return NothingToTry(reason=f"the reuse model lost {len(lost)} times in a row", retry_at=retry_at)
    box = step_box(request.space, request.incumbent, STEP_AFTER_LOSS if lost else None)
    return _best(request, reuse, base, box)


def _losses_allowed(request: Request) -> int:
    modelled = (axis for axis in request.space.axes if axis.knob in MODELLED)
    wide = any(axis.largest_step > STEP_AFTER_LOSS for axis in modelled)
    return LOSSES_AT_STEP + int(wide)


def _best(request: Request, reuse: Reuse, base: Prediction, box: Box) -> Candidate | NothingToTry:
    """Take the best point that is worth it and not denied."""
    prices = request.spec.objective.prices
    scored = _scored(reuse, prices, box)
    gains = scored.many.objective - base.objective
    deny = denied(request.trials, request.incumbent)
    alike = _like_losers(reuse, prices, scored, box, deny)
    least = max(LEAST_GAIN, LEAST_GAIN_IN_NOISE * (request.noise or 0.0))
    for i in _best_first(box, scored, gains):
        if not gains[i] >= least:
            break
        config = box.config({side.knob: float(scored.points[side.knob][i]) for side in _sides(box)})
        new = not same_config(config, request.incumbent)
        if new and not alike[i] and deny.reason(config) is None:
            return _candidate(request, reuse, config, base)
    return NothingToTry(
        reason=f"reuse model: the best predicted gain within one step is {gains.max():+.4f}"
        f" (at least {least:.4f} is worth an experiment; {len(deny.entries)} configurations are denied)"
    )


def _scored(reuse: Reuse, prices: Prices, box: Box) -> _Scored:
    """Predict a grid over the box; a knob outside the space keeps its one value.

    No finer grid follows: the predicted passes end at once where the TTL comes before the tier is full, and a
    fine grid finds the very edge of that, where a real cache still runs passes.
    """
    full = completed(reuse, box.incumbent)
    assert not isinstance(full, NotAvailable)  # the caller has predicted the incumbent
    levels = {side.knob: side.levels(GRID_LEVELS) for side in _sides(box)}
    mesh = np.meshgrid(*(levels.get(knob, (full[knob],)) for knob in MODELLED), indexing="ij")
    points = {knob: values.ravel() for knob, values in zip(MODELLED, mesh, strict=True)}
    return _Scored(points=points, many=predict_many(reuse, prices, points))


def _sides(box: Box) -> tuple[Side, ...]:
    """List the sides that the model knows; of all others the incumbent's value is kept."""
    return tuple(side for side in box.sides if side.knob in MODELLED)


def _best_first(box: Box, scored: _Scored, gains: Floats) -> Iterator[int]:
    """Order points by gain; of those that are predicted equal the one that moves least comes first."""
    apart = [np.abs(np.log(scored.points[side.knob] / side.current)) for side in _sides(box)]
    return iter(np.lexsort((np.sum(apart, axis=0), -np.round(gains, 9))).tolist())


def _like_losers(
    reuse: Reuse, prices: Prices, scored: _Scored, box: Box, deny: DenyList
) -> NDArray[np.bool_]:
    """Mark the points that are predicted to behave as one that is denied."""
    alike = np.zeros(len(scored.many.objective), dtype=np.bool_)
    for entry in deny.entries:
        if not comparable(entry.config, box.incumbent):
            continue
        full = completed(reuse, entry.config)
        then = predict(reuse, prices, entry.config)
        if isinstance(full, NotAvailable) or isinstance(then, NotAvailable):
            continue
        hits = np.abs(scored.many.hit_rate - then.hit_rate) <= ALIKE_HITS
        passes = np.isclose(scored.many.passes_per_minute, then.passes_per_minute, rtol=ALIKE_COST)
        memory = np.isclose(scored.points[Knob.HOST_MEMORY], full[Knob.HOST_MEMORY], rtol=ALIKE_COST)
        alike |= hits & passes & memory
    return alike


def _candidate(request: Request, reuse: Reuse, config: CacheConfig, base: Prediction) -> Candidate:
    then = predict(reuse, request.spec.objective.prices, config)
    assert not isinstance(then, NotAvailable)  # it sets the knobs that the incumbent sets
    gain = then.objective - base.objective
    return Candidate(
        config=config,
        strategy=Strategy.REUSE_MODEL,
        why=f"{steps_written(request.incumbent, config)}: from {reuse.touches:.0f} block touches at "
        f"{reuse.agents} agents, predicted hit rate {base.hit_rate:.3f} -> {then.hit_rate:.3f}, "
        f"objective {base.objective:.3f} -> {then.objective:.3f} ({gain:+.3f})"
        f"{_as_recency(config, request.reports)}",
        predicted_gain=gain,
        predicted_objective=then.objective,
    )


def _as_recency(config: CacheConfig, reports: Sequence[Report]) -> str:
    """Say that the prediction is of another eviction policy, where it is."""
    policy = evicts_by(config, reports)
    return "" if policy in (None, EvictionPolicy.LRU) else f", as if {policy} were LRU"
