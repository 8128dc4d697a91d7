"""How an experiment ends: incumbents first, then the record."""

from dataclasses import replace

import pytest

from kvtune_api.names import Outcome, OutcomeReason, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.status import TRIALS_KEPT
from kvtune_api.units import Duration
from kvtune_tuner.draft import moment
from kvtune_tuner.model import Verb
from kvtune_tuner.plan import plan
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

RESTED = spec(settings=replace(QUICK, cooldown=Duration("10m")))
PHASES = [
    Phase.RUN_IN,
    Phase.WASHOUT,
    Phase.MEASURING,
    Phase.AWAITING_APPROVAL,
    Phase.PROMOTING,
    Phase.WATCHING,
]


def at(phase: Phase) -> Loop:
    """A loop that has come to a phase and rests after its first experiment."""
    waits = phase is Phase.AWAITING_APPROVAL
    return experimenting(phase, spec=replace(RESTED, mode=Mode.RECOMMEND) if waits else RESTED)


@pytest.mark.parametrize("phase", PHASES)
def test_case_24_abort_in_every_phase_restores_at_once(phase: Phase) -> None:
    run = at(phase)
    run.step()
    run.wish(Verb.ABORT, "chat-00001")
    run.step()
    assert not run.exposed(), "the incumbents are pushed in the same tick"
    run.until_ended(limit=5)
    assert run.outcome() == "Aborted(User)" and not run.refusals
    assert run.all_run(START) and run.status.incumbent == START


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("how", ["edited", "removed"])
def test_a_policy_that_is_edited_or_removed_ends_what_runs_as_superseded(phase: Phase, how: str) -> None:
    run = at(phase)
    if how == "edited":
        run.edit(replace(run.policy.spec, experiment=replace(QUICK, alpha=0.01)))
    else:
        metadata = replace(run.policy.metadata, deletion_timestamp="2030-01-01T01:00:00Z")
        run.policy = replace(run.policy, metadata=metadata)
    run.step()
    assert not run.exposed()
    run.until_ended(limit=5)
    assert run.outcome() == "Aborted(Superseded)"
    assert how in run.experiment.status.message


def test_an_abort_of_another_experiment_is_refused() -> None:
    run = at(Phase.MEASURING)
    run.wish(Verb.ABORT, "chat-00007")
    run.step()
    assert run.experiment.status.outcome is None and run.told(Reason.NOT_AVAILABLE)


def test_restoring_waits_for_the_agents_that_answer() -> None:
    run = at(Phase.MEASURING)
    slow = sorted(run.exposed())[0]
    run.wish(Verb.ABORT)
    run.step()
    run.pool.agents[slow].down = True
    run.step()
    assert run.phase is Phase.ROLLING_BACK and "1 do not answer" in run.status.waiting_for
    run.until_ended(limit=20)
    late = run.told(Reason.ROLLBACK_LATE)
    assert len(late) == 1 and slow in late[0]
    run.now += 30
    run.pool.agents[slow].down = False
    assert run.all_run(START)


def test_a_trial_is_written_once_and_says_what_was_seen() -> None:
    run = loop(gaining(-0.06), spec=RESTED)
    run.until_ended()
    (found,) = run.status.trials
    assert (found.outcome, found.reason) == (Outcome.REJECTED, OutcomeReason.HARM_OBJECTIVE)
    assert found.candidate == BETTER and found.incumbent == START and found.strategy == "Ladder"
    assert found.effect is not None and found.effect < -0.03
    assert set(found.guardrails) == {"ttft"}
    assert run.status.last_outcome == "chat-00001 Rejected(HarmObjective)"


def test_the_history_is_bounded() -> None:
    whole = loop(gaining(-0.06), spec=RESTED)
    whole.until_ended()
    run = loop(gaining(-0.06), spec=RESTED)
    run.until_phase(Phase.ROLLING_BACK)
    full = tuple(replace(whole.status.trials[0], number=1000 + number) for number in range(TRIALS_KEPT))
    run.policy = replace(run.policy, status=replace(run.status, trials=full))
    run.step()
    assert len(run.status.trials) == TRIALS_KEPT
    assert run.status.trials[-1].number == 1 and run.status.trials[0].number == 1001


def test_the_noise_of_an_experiment_serves_the_next() -> None:
    run = loop(gaining(-0.06), spec=RESTED)
    run.until_ended()
    noise = run.status.noise
    assert noise is not None and 0.001 < noise.objective < 0.03
    assert noise.pairs == run.experiment.spec.pairs and noise.measured_at <= moment(run.now)
    assert noise.effect_over_sd is not None and noise.effect_over_sd > 1


def test_an_experiment_that_was_cut_short_does_not_change_the_noise() -> None:
    run = at(Phase.MEASURING)
    known = run.status.noise
    run.wish(Verb.ABORT)
    run.until_ended(limit=10)
    assert run.status.noise == known


@pytest.mark.parametrize("seconds", [0.0, 10.0])
def test_the_time_of_the_end_stays_when_the_record_is_written_again(seconds: float) -> None:
    run = loop(gaining(-0.06), spec=RESTED)
    run.until_phase(Phase.ROLLING_BACK)
    decided = plan(run.seen())
    assert decided.experiment is not None and decided.experiment.status.ended_at is not None
    run.experiments["chat-00001"] = decided.experiment
    run.away(seconds)
    run.step()
    assert run.experiment.status.ended_at == decided.experiment.status.ended_at
    assert len(run.status.trials) == 1
