"""Optuna proposes within one step, from a study rebuilt from history. Its known traps are tests here."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.policy import PolicySpec, Strategy
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange
from kvtune_api.status import TRIALS_KEPT, Trial
from kvtune_api.units import Duration
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import same_config
from kvtune_tuner.denylist import denied, near
from kvtune_tuner.proposal import Candidate, NothingToTry
from kvtune_tuner.propose import QUESTIONS, SAFETY, ask, propose_by_optuna, quiet, study_of
from kvtune_tuner.space import space_of
from tests.tuner.proposal_cases import ENDINGS, histories, knobs_of, made, policy, request, trial

SPACE = space_of(policy(), frozenset(Knob))
START = made(100, 0.2, 100)


def _study(trials: Sequence[Trial], incumbent: CacheConfig = START, seed: int = 1) -> optuna.Study:
    with quiet():
        return study_of(SPACE, incumbent, trials, seed)


def _values(study: optuna.Study) -> list[float | None]:
    return [one.value for one in study.trials]


def _history(count: int, ending: str = "rejected") -> list[Trial]:
    return [
        trial(
            n,
            made(30 + n, 0.1 + n / 2000, 50 + n),
            ending,
            incumbent=START,
            strategy=Strategy.OPTUNA,
            effect=-0.001 * n,
            guardrails={"ttft": -0.01 * n},
        )
        for n in range(1, count + 1)
    ]


def test_the_study_is_named_by_its_space_and_begins_with_the_incumbent() -> None:
    study = _study([])
    assert study.study_name == SPACE.digest
    assert _values(study) == [0.0]
    assert study.trials[0].params == {str(knob): value for knob, value in point(START).items()}


def test_values_are_effects_summed_along_the_promotions() -> None:
    second = made(200, 0.2, 200)
    trials = [
        trial(1, made(50, 0.2, 50), incumbent=START, effect=-0.02),
        trial(2, second, "promoted", incumbent=START, effect=0.05),
        trial(3, made(300, 0.2, 200), "undecided", incumbent=second, effect=0.01),
        trial(4, made(300, 0.2, 100), "rolled back", incumbent=second, effect=None),
    ]
    assert _values(_study(trials, second)) == pytest.approx([0.0, -0.02, 0.05, 0.06, -0.05])


def test_an_incumbent_that_no_promotion_explains_has_its_measured_level() -> None:
    edited = made(400, 0.1, 400)
    first = trial(1, made(50, 0.2, 50), incumbent=START, effect=-0.02)
    trials = [
        replace(first, objective=0.38),
        replace(trial(2, made(500, 0.1, 400), incumbent=edited, effect=-0.01), objective=0.59),
        trial(3, made(60, 0.1, 60), incumbent=made(70, 0.1, 70), effect=-0.2),
    ]
    assert _values(_study(trials)) == pytest.approx([0.40, 0.38, 0.60, 0.59, 0.60, 0.40])


def test_every_trial_carries_every_constraint_and_a_bad_point_is_infeasible() -> None:
    trials = [
        trial(1, made(50, 0.2, 50), "harmful", incumbent=START, guardrails={"ttft": -0.04}),
        trial(2, made(60, 0.2, 50), "undecided", incumbent=START, guardrails={"hitRate": 0.02}),
        trial(3, made(70, 0.2, 50), "rolled back", incumbent=START, effect=None),
        trial(4, made(80, 0.2, 50), "no data", incumbent=START, effect=None),
    ]
    constraints = [one.constraints for one in _study(trials).trials]
    assert all(one.keys() == {SAFETY, "ttft", "hitRate"} for one in constraints)
    feasible = [all(value <= 0 for value in one.values()) for one in constraints]
    assert feasible == [True, False, True, False, True]
    assert constraints[1]["ttft"] == 0.04


def test_a_trial_without_data_has_failed_and_its_point_is_not_named_again() -> None:
    gone = made(50, 0.2, 50)
    trials = [trial(1, gone, "no data", incumbent=START, effect=None)]
    assert [one.state for one in _study(trials).trials] == [TrialState.COMPLETE, TrialState.FAIL]
    for seed in range(20):
        found = propose_by_optuna(request(incumbent=START, trials=trials, seed=seed))
        assert isinstance(found, Candidate)
        assert not near(found.config, gone)


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_value_is_nan_and_no_trial_stays_running(ending: str) -> None:
    study = _study(_history(12, ending))
    for _ in range(5):
        asked = ask(study, SPACE)
        assert SPACE.inside(asked)
    for one in study.trials:
        assert one.state in (TrialState.COMPLETE, TrialState.FAIL)
        assert one.value is None or math.isfinite(one.value)


def test_history_in_which_nothing_is_feasible_still_gives_a_candidate() -> None:
    with quiet(), pytest.raises(ValueError, match="feasible"):
        _ = _infeasible_study().best_trial
    found = propose_by_optuna(request(incumbent=START, trials=_history(30, "rolled back")))
    assert isinstance(found, Candidate)


def _infeasible_study() -> optuna.Study:
    study = optuna.create_study(direction="maximize")
    study.add_trial(optuna.trial.create_trial(value=1.0, constraints={SAFETY: 1.0}))
    return study


def test_points_outside_changed_bounds_are_left_out_and_never_break() -> None:
    narrow = policy(Knobs(cache_ttl=DurationRange(min=Duration("30s"), max=Duration("45s"))))
    space = space_of(narrow, frozenset(Knob))
    trials = _history(30)
    with quiet():
        study = study_of(space, made(40, None, None), trials, 1)
    kept = [one.params["cacheTTL"] for one in study.trials]
    assert kept == [float(30 + n) for n in range(1, 16)]
    found = propose_by_optuna(request(narrow, incumbent=made(40, None, None), trials=trials))
    assert isinstance(found, Candidate)
    without = [trial(1, made(None, 0.2, None), incumbent=made(None, 0.1, None))]
    assert isinstance(
        propose_by_optuna(request(narrow, incumbent=made(40, None, None), trials=without)), Candidate
    )


def test_what_is_asked_for_is_clamped_to_one_step_afterwards() -> None:
    asked = request(policy(knobs_of(step=1.2)), incumbent=START, trials=_history(20))
    box = step_box(asked.space, START)
    for seed in range(20):
        found = propose_by_optuna(request(asked.spec, incumbent=START, trials=asked.trials, seed=seed))
        assert isinstance(found, Candidate)
        assert box.holds(found.config)


def test_the_same_question_has_the_same_answer_and_another_seed_another_one() -> None:
    trials = _history(20)
    answers = [propose_by_optuna(request(incumbent=START, trials=trials, seed=s)) for s in (1, 1, 2, 3)]
    assert answers[0] == answers[1]
    assert len({str(one) for one in answers}) > 1


def test_a_trial_without_a_verdict_changes_the_question() -> None:
    first = propose_by_optuna(request(incumbent=START))
    assert isinstance(first, Candidate)
    aborted = trial(1, first.config, "aborted", incumbent=START, effect=None)
    second = propose_by_optuna(request(incumbent=START, trials=[aborted]))
    assert isinstance(second, Candidate)
    assert second.config != first.config


def test_when_all_is_denied_it_stops_after_a_bounded_number_of_questions() -> None:
    spec = policy(Knobs(cache_ttl=DurationRange(min=Duration("100s"), max=Duration("104s"))))
    only = made(100, None, None)
    found = propose_by_optuna(
        request(spec, incumbent=only, trials=[trial(1, made(102, None, None), incumbent=only)])
    )
    assert isinstance(found, NothingToTry)
    assert found.reason.startswith(f"Optuna: {QUESTIONS} suggestions were all the incumbent or denied")


def test_knobs_without_room_are_not_asked_for() -> None:
    fixed = policy(Knobs(cache_ttl=DurationRange(min=Duration("60s"), max=Duration("60s"))))
    found = propose_by_optuna(request(fixed, incumbent=made(60, None, None)))
    assert found == NothingToTry(reason="Optuna: every knob has min = max")


def test_three_hundred_trials_are_remembered_and_shifted_ones_are_not() -> None:
    full = propose_by_optuna(request(incumbent=START, trials=_history(TRIALS_KEPT)))
    assert isinstance(full, Candidate)
    assert full.why.endswith("Optuna TPE on 300 ended experiments")
    shifted = [trial(n, made(30 + n), incumbent=START, shifted=True) for n in range(1, 9)]
    anew = propose_by_optuna(request(incumbent=START, trials=shifted))
    assert isinstance(anew, Candidate)
    assert anew.why.endswith("Optuna TPE on 0 ended experiments")


def test_optunas_log_level_is_as_it_was_and_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("optuna")
    before = logger.level
    propose_by_optuna(request(incumbent=START, trials=_history(12)))
    assert logger.level == before
    assert capfd.readouterr() == ("", "")


def test_tpe_learns_which_way_is_better() -> None:
    """Candidates below the start have lost by more the further they are; those above were undecided."""
    trials = [
        trial(n, made(ttl, 0.2, 100), "undecided", incumbent=START, effect=0.1 * math.log(ttl / 100))
        for n, ttl in enumerate((30, 35, 42, 50, 60, 75, 88, 120, 150, 190, 240, 300, 370, 395), start=1)
    ]
    above = 0
    for seed in range(20):
        found = propose_by_optuna(request(incumbent=START, trials=trials, seed=seed))
        assert isinstance(found, Candidate)
        above += point(found.config)[Knob.CACHE_TTL] > 100
    assert above >= 14


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(0, 2**63))
def test_every_proposal_is_inside_new_and_not_denied(
    drawn: tuple[PolicySpec, CacheConfig, list[Trial]], seed: int
) -> None:
    spec, incumbent, trials = drawn
    asked = request(spec, incumbent=incumbent, trials=trials, seed=seed)
    found = propose_by_optuna(asked)
    assert found == propose_by_optuna(asked)
    if isinstance(found, Candidate):
        assert asked.space.inside(point(found.config))
        assert step_box(asked.space, incumbent).holds(found.config)
        assert not same_config(found.config, incumbent)
        assert denied(trials, incumbent).reason(found.config) is None
