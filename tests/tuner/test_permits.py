"""Freezes, the kill switch and the cap on exposure: what the control plane allows beside the policy."""

from dataclasses import replace

import pytest

from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.units import Duration
from kvtune_tuner.model import Hold, Limits, Verb
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import experimenting, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

FREEZE = Hold(reason=Reason.FROZEN, message="freeze window `weekend` until Mon 06:00")
SWITCH = Hold(reason=Reason.STOPPED, message="stop is true in ConfigMap kvtune-operator")
ELSEWHERE = Hold(reason=Reason.CAPPED, message="maxExperiments 10 run already")


def busy(agents: int) -> PoolSettings:
    """Traffic with which one pair alone reaches minRequests."""
    return PoolSettings(agents=agents, seed=1, noise_sd=0.005, share_sd=0.005, request_rate=12.0)


@pytest.mark.parametrize("hold", [FREEZE, SWITCH, ELSEWHERE])
def test_nothing_starts_while_the_control_plane_does_not_allow_it(hold: Hold) -> None:
    run = loop(gaining())
    run.limits = Limits(no_start=hold)
    run.steps(60)
    assert not run.experiments
    found = run.condition(ConditionType.EXPERIMENTING)
    assert (found.reason, found.message) == (hold.reason, hold.message)
    assert run.status.waiting_for == hold.message
    writes = run.writes
    run.steps(20)
    assert run.writes == writes
    run.limits = Limits()
    run.until_phase(Phase.RUN_IN)


def test_a_wish_to_try_waits_for_the_end_of_a_freeze() -> None:
    run = loop(gaining())
    run.limits = Limits(no_start=FREEZE)
    run.wish(Verb.TRY, config=replace(START, cache_ttl=Duration("100s")))
    run.steps(60)
    assert not run.experiments and run.wishes
    run.limits = Limits()
    run.until(lambda: bool(run.experiments))
    assert run.experiment.spec.strategy == "User" and not run.wishes


def test_observe_goes_on_observing_in_a_freeze() -> None:
    run = loop(gaining(), spec=spec(Mode.OBSERVE))
    run.limits = Limits(no_start=FREEZE)
    run.steps(60)
    assert run.status.would_try is not None


@pytest.mark.parametrize(
    "phase", [Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]
)
@pytest.mark.parametrize("hold", [FREEZE, SWITCH])
def test_a_running_experiment_ends_and_the_incumbents_are_restored(phase: Phase, hold: Hold) -> None:
    run = experimenting(phase)
    run.limits = Limits(no_start=hold, no_experiment=hold)
    run.until_ended(limit=10)
    assert run.outcome() == "Aborted(Frozen)"
    assert run.experiment.status.message == f"{hold.reason}: {hold.message}"
    assert run.all_run(START)
    run.steps(20)
    assert len(run.experiments) == 1


def test_a_winner_waits_out_a_freeze_and_is_not_promoted_in_it() -> None:
    run = experimenting(Phase.AWAITING_APPROVAL, spec=spec(Mode.RECOMMEND))
    run.limits = Limits(no_start=FREEZE, no_experiment=FREEZE)
    run.steps(5)
    assert run.phase is Phase.AWAITING_APPROVAL
    run.wish(Verb.APPROVE, run.experiment.metadata.name)
    run.steps(5)
    assert run.phase is Phase.AWAITING_APPROVAL and not run.exposed()
    assert any("freeze window" in text for text in run.told(Reason.NOT_AVAILABLE))
    run.limits = Limits()
    run.wish(Verb.APPROVE, run.experiment.metadata.name)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_too_many_experiments_elsewhere_do_not_hold_an_approval() -> None:
    run = experimenting(Phase.AWAITING_APPROVAL, spec=spec(Mode.RECOMMEND))
    run.limits = Limits(no_start=ELSEWHERE)
    run.wish(Verb.APPROVE, run.experiment.metadata.name)
    run.step()
    assert run.phase is Phase.PROMOTING


@pytest.mark.parametrize(
    ("share", "agents", "pairs"), [(0.5, 6, 3), (0.34, 6, 2), (0.2, 6, 1), (0.3, 10, 3), (1.0, 6, 3)]
)
def test_the_cap_on_exposure_limits_the_pairs(share: float, agents: int, pairs: int) -> None:
    run = loop(gaining(), settings=busy(agents))
    run.limits = Limits(exposed_share=share)
    run.until_phase(Phase.MEASURING)
    assert len(run.experiment.spec.pairs) == pairs
    while run.phase in (Phase.WASHOUT, Phase.MEASURING):
        assert len(run.exposed()) <= share * agents + 1e-9
        run.step()


def test_a_cap_under_which_no_pair_fits_is_a_refusal() -> None:
    run = loop(gaining())
    run.limits = Limits(exposed_share=0.1)
    run.steps(60)
    assert not run.experiments
    found = run.condition(ConditionType.EXPERIMENTING)
    assert found.reason is Reason.CAPPED
    assert found.message == "maxExposedShare 0.1 of 6 agents is less than one: no candidate may run"


def test_the_ramp_of_a_proven_candidate_is_not_capped() -> None:
    run = loop(gaining(), settings=busy(6))
    run.limits = Limits(exposed_share=0.2)
    run.until_phase(Phase.WATCHING)
    assert len(run.exposed()) == 5
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)" and run.status.incumbent == BETTER


def test_a_frozen_trial_does_not_count_against_its_candidate() -> None:
    run = loop(gaining(), spec=spec(settings=replace(QUICK, cooldown=Duration("1m"))))
    run.until_phase(Phase.MEASURING)
    run.limits = Limits(no_start=FREEZE, no_experiment=FREEZE)
    run.until_ended()
    run.limits = Limits()
    run.until_ended(2)
    assert run.experiment.spec.candidate == BETTER and run.outcome() == "Promoted(Superior)"
