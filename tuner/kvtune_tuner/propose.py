"""Let Optuna's TPE name the next candidate. The only importer of optuna.

Called by candidate.py when the reuse model and the ladder are done. No study is kept: it is rebuilt in memory
from the ended experiments (at most 300) each time, seeded, so a restarted control plane asks the same
question and gets the same answer. What bit others (experiments.md, "Optuna 5 facts"):

- every trial carries every constraint (feasible iff <= 0), or it counts as feasible;
- a bad point is a finished trial with its constraint violated; one without data is a failed trial, which
  samplers ignore, so it is denied here as well. NaN is never told;
- what Optuna asks for is clamped to one step of the incumbent afterwards;
- no trial stays RUNNING: each question is answered FAIL at once;
- a point outside the present bounds is left out, and the study is named by the hash of the space.

Values are effects summed along the promotions from one anchor: the first incumbent's level. Each effect is a
paired difference, so the drift of the load between experiments does not enter, as it would with the mean
objective of the candidate arm. Pure but for Optuna's own log level, which is lowered during a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import Strategy
from kvtune_api.status import TRIALS_KEPT, Trial
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import same_config, steps_written
from kvtune_tuner.denylist import Denied, current, denied, lost
from kvtune_tuner.proposal import Candidate, NothingToTry, Request
from kvtune_tuner.space import Axis, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

QUESTIONS = 32
"""Times Optuna is asked for a point that is neither the incumbent nor denied."""

STARTUP_TRIALS = 5
"""Finished trials before TPE leaves random search (Optuna's own 10 is as many as most policies ever run)."""

SAFETY = "safety"
"""The constraint that every trial has: violated when the candidate was rolled back or harmed a guardrail."""

PENALTY = 0.1
"""How far below its incumbent a candidate is taken to be that was ended before any Delta."""


def propose_by_optuna(request: Request) -> Candidate | NothingToTry:
    """Ask TPE until it names a point of the step box that is new and not denied."""
    space, incumbent = request.space, request.incumbent
    problem = space.problem(incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    if not _free(space):
        return NothingToTry(reason="Optuna: every knob has min = max")
    box = step_box(space, incumbent)
    deny = denied(request.trials, incumbent).plus(_without_data(request.trials))
    history = current(request.trials)[-TRIALS_KEPT:]
    with quiet():
        study = study_of(space, incumbent, history, _seed(request))
        for _ in range(QUESTIONS):
            config = box.config(ask(study, space))
            if not same_config(config, incumbent) and deny.reason(config) is None:
                why = f"{steps_written(incumbent, config)}: Optuna TPE on {len(history)} ended experiments"
                return Candidate(config=config, strategy=Strategy.OPTUNA, why=why)
    return NothingToTry(
        reason=f"Optuna: {QUESTIONS} suggestions were all the incumbent or denied"
        f" ({len(deny.entries)} configurations are denied)"
    )


def study_of(space: Space, incumbent: CacheConfig, trials: Sequence[Trial], seed: int) -> Study:
    """Rebuild the study: the first incumbent, then every ended experiment inside the bounds, in order."""
    import optuna

    study = optuna.create_study(
        study_name=space.digest,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
    )
    names = sorted({name for trial in trials for name in trial.guardrails} | {SAFETY})
    for point in _points(incumbent, trials):
        if space.inside(knobs.point(point.config)):
            study.add_trial(_frozen_trial(space, point, names))
    return study


def ask(study: Study, space: Space) -> dict[Knob, float]:
    """Ask for one point within the bounds, and answer FAIL at once, so that no trial stays RUNNING."""
    from optuna.trial import TrialState

    trial = study.ask(_distributions(space))
    study.tell(trial, state=TrialState.FAIL)
    return {Knob(name): float(value) for name, value in trial.params.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Lower Optuna's log level to errors, and set it back."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One configuration with its level above the anchor; None where nothing was measured."""

    config: CacheConfig
    level: float | None
    constraints: Mapping[str, float]


def _points(incumbent: CacheConfig, trials: Sequence[Trial]) -> Iterator[_Point]:
    """Give each incumbent when first met, and every candidate at its incumbent's level plus its effect."""
    known: list[tuple[CacheConfig, float]] = []
    if not trials:
        yield _Point(config=incumbent, level=0.0, constraints={})
    for trial in trials:
        base = next((level for config, level in known if same_config(config, trial.incumbent)), None)
        if base is None:
            base = _first_level(trial, known[-1][1] if known else 0.0)
            known.append((trial.incumbent, base))
            yield _Point(config=trial.incumbent, level=base, constraints={})
        level = _level(trial, base)
        if trial.outcome is Outcome.PROMOTED and level is not None:
            known.append((trial.candidate, level))
        yield _Point(config=trial.candidate, level=level, constraints=_constraints(trial))


def _first_level(trial: Trial, otherwise: float) -> float:
    """Give the level of an incumbent that no promotion explains: what it had beside this candidate."""
    if trial.objective is not None and trial.effect is not None:
        return trial.objective - trial.effect
    return otherwise


def _level(trial: Trial, base: float) -> float | None:
    """Give a candidate's level, or None for a trial without a verdict on it."""
    if trial.outcome is not Outcome.PROMOTED and not lost(trial):
        return None
    return base + trial.effect if trial.effect is not None else base - PENALTY


def _constraints(trial: Trial) -> dict[str, float]:
    harmed = trial.outcome is Outcome.ROLLED_BACK or trial.reason is OutcomeReason.HARM_GUARDRAIL
    return {SAFETY: float(harmed), **{name: -above for name, above in trial.guardrails.items()}}


def _frozen_trial(space: Space, point: _Point, names: Sequence[str]) -> FrozenTrial:
    """Write a finished trial with every constraint; without a level a failed one."""
    from optuna.trial import TrialState, create_trial

    values = knobs.point(point.config)
    return create_trial(
        state=TrialState.FAIL if point.level is None else TrialState.COMPLETE,
        value=point.level,
        params={str(axis.knob): values[axis.knob] for axis in _free(space)},
        distributions=_distributions(space),
        constraints={name: point.constraints.get(name, 0.0) for name in names},
    )


def _seed(request: Request) -> int:
    """Derive a seed that differs after each ended experiment."""
    last = max((trial.number for trial in request.trials), default=0)
    text = f"{request.seed}:{request.space.digest}:{last}:{len(request.trials)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _free(space: Space) -> tuple[Axis, ...]:
    return tuple(axis for axis in space.axes if axis.movable)


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    """Give a log-uniform distribution for each knob that has room, and the choices of one that has names."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        str(axis.knob): CategoricalDistribution(axis.choices)
        if axis.choices
        else FloatDistribution(axis.low, axis.high, log=True)
        for axis in _free(space)
    }


def _without_data(trials: Sequence[Trial]) -> tuple[Denied, ...]:
    """Deny, for Optuna alone, what gave no usable data: samplers forget failed trials."""
    return tuple(
        Denied(config=trial.candidate, because=f"gave no usable data in experiment {trial.number}")
        for trial in current(trials)
        if trial.reason in (OutcomeReason.NO_DATA, OutcomeReason.SAMPLE_RATIO)
    )
