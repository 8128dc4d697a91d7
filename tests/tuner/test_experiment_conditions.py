"""Conditions of an experiment over its whole life."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kvtune_api.evidence import ExperimentCondition
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import ExperimentConditionType, Phase
from kvtune_api.status import Truth
from kvtune_tuner.experiment_conditions import experiment_conditions
from kvtune_tuner.model import Verb
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import gaining

RUNNING, DECIDED, EXPOSED = ExperimentConditionType


def found(experiment: KVCacheExperiment) -> dict[ExperimentConditionType, ExperimentCondition]:
    """The conditions by type."""
    return {each.type: each for each in experiment_conditions(experiment)}


def truths(run: Loop) -> tuple[Truth, Truth, Truth]:
    """Running, Decided, Exposed of the newest experiment."""
    conditions = found(run.experiment)
    return conditions[RUNNING].status, conditions[DECIDED].status, conditions[EXPOSED].status


@pytest.mark.parametrize(
    ("phase", "exposed"),
    [
        (Phase.RUN_IN, Truth.FALSE),
        (Phase.WASHOUT, Truth.TRUE),
        (Phase.MEASURING, Truth.TRUE),
        (Phase.PROMOTING, Truth.TRUE),
        (Phase.WATCHING, Truth.TRUE),
    ],
)
def test_candidates_are_out_from_the_first_test_epoch_on(phase: Phase, exposed: Truth) -> None:
    run = experimenting(phase)
    assert truths(run) == (Truth.TRUE, Truth.FALSE, exposed)
    assert found(run.experiment)[RUNNING].reason == phase


def test_a_promoted_experiment_is_decided_with_effect_interval_and_e_value() -> None:
    run = loop(gaining(0.06))
    run.until_ended()
    assert truths(run) == (Truth.FALSE, Truth.TRUE, Truth.FALSE)
    decided = found(run.experiment)[DECIDED]
    assert decided.reason == "Superior"
    for part in ("Promoted(Superior)", "effect +0.0", " in [", "e-value", "against 20", "Deltas"):
        assert part in decided.message
    assert found(run.experiment)[EXPOSED].message == "the candidate is the incumbent now"
    assert "/24" in run.experiment.status.shown.deltas
    assert "[" in run.experiment.status.shown.effect and "/20" in run.experiment.status.shown.e_value


def test_while_it_rolls_back_it_is_decided_but_candidates_may_still_be_out() -> None:
    run = experimenting(Phase.MEASURING)
    run.wish(Verb.ABORT)
    run.step()
    assert run.experiment.status.phase is Phase.ROLLING_BACK
    assert truths(run) == (Truth.TRUE, Truth.TRUE, Truth.TRUE)
    before = found(run.experiment)[DECIDED]
    run.until_ended()
    assert truths(run) == (Truth.FALSE, Truth.TRUE, Truth.FALSE)
    after = found(run.experiment)[DECIDED]
    assert after.last_transition_time == before.last_transition_time
    assert "Aborted(User)" in after.message and "the incumbent is kept" in after.message


def test_an_experiment_that_ends_in_its_run_in_was_never_exposed() -> None:
    run = experimenting(Phase.RUN_IN)
    run.wish(Verb.ABORT)
    run.until_ended()
    exposed = found(run.experiment)[EXPOSED]
    assert (exposed.status, exposed.reason) == (Truth.FALSE, "NotExposed")


def test_transition_times_are_the_records_own_and_move_only_with_the_status() -> None:
    run = loop(gaining(0.06))
    last: dict[ExperimentConditionType, ExperimentCondition] = {}
    while not run.status.trials:
        run.step()
        if not run.experiments:
            continue
        for kind, condition in found(run.experiment).items():
            before = last.get(kind)
            if before is not None and before.status is condition.status:
                assert before.last_transition_time == condition.last_transition_time, kind
            last[kind] = condition


def test_a_record_of_an_older_writer_has_conditions_too() -> None:
    run = loop(gaining(0.06))
    run.until_ended()
    record = replace(run.experiment.status, decided_at=None, exposed_changed_at=None)
    conditions = found(replace(run.experiment, status=record))
    assert conditions[DECIDED].last_transition_time == record.ended_at
    assert conditions[EXPOSED].last_transition_time == datetime.fromtimestamp(record.started_at, tz=UTC)
    assert {each.observed_generation for each in conditions.values()} == {1}
