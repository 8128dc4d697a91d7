"""Safety while a candidate is live: what ends an experiment at once, and what must not."""

from dataclasses import replace

import pytest

from kvtune_api.experiment_settings import OnGuardrail
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_tuner.plan import plan
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.responses import Response, Surface
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

CATASTROPHE: Surface = gaining(-0.25, -0.6)
"""The candidate serves 20 % of the requests in time instead of 80 %."""


def exposed(*, tick: float = 5.0) -> Loop:
    """A loop at the tick at which the candidate was pushed first."""
    run = loop(CATASTROPHE, tick=tick)
    run.until_phase(Phase.WASHOUT)
    return run


@pytest.mark.parametrize("tick", [5.0, 10.0])
def test_case_25_a_catastrophe_is_gone_within_70_seconds_and_the_reason_is_said(tick: float) -> None:
    run = exposed(tick=tick)
    begun = run.now - tick
    run.until(lambda: not run.exposed())
    assert run.now - tick - begun <= 70
    assert run.outcome() == "RolledBack(Breaker)"
    assert run.told(Reason.GUARDRAIL_TRIPPED)
    breach = run.experiment.status.breach
    assert breach is not None and breach.check == "breaker"
    for word in ("over 0.25 s", "control arm", "limit"):
        assert word in breach.message, "metric, value, limit and window are said (case 25)"
    run.step()
    assert run.phase is Phase.IDLE and run.all_run(START)


def test_a_tripped_candidate_is_not_tried_again() -> None:
    run = exposed()
    run.until_ended()
    run.steps(400)
    later = [found for found in run.experiments.values() if found.spec.number > 1]
    assert all(found.spec.candidate != BETTER for found in later)


def test_case_22_a_policy_that_asks_for_it_pauses_after_the_breaker() -> None:
    settings = replace(QUICK, on_guardrail=OnGuardrail.ROLLBACK_AND_PAUSE)
    run = loop(CATASTROPHE, spec=spec(settings=settings))
    run.until_ended()
    run.steps(50)
    assert run.phase is Phase.PAUSED and len(run.experiments) == 1
    assert "guardrail tripped in chat-00001" in run.status.waiting_for
    assert run.all_run(START)


def test_after_the_breaker_there_is_a_cooldown() -> None:
    settings = replace(QUICK, cooldown=Duration("5m"))
    run = loop(CATASTROPHE, spec=spec(settings=settings))
    run.until_ended()
    ended = run.now
    run.until(lambda: run.status.experiments_started == 2)
    assert run.now - ended >= 300


def test_one_pair_that_does_not_switch_does_not_shield_the_others() -> None:
    run = loop(CATASTROPHE, tick=5.0)
    run.until_phase(Phase.RUN_IN)
    stubborn = run.experiment.spec.pairs[0]
    for name in (stubborn.first, stubborn.second):
        run.pool.agents[name].refuses_token = True
    run.until_phase(Phase.WASHOUT)
    begun = run.now - run.tick
    run.until(lambda: not run.exposed())
    assert run.now - run.tick - begun <= 75
    assert run.outcome() == "RolledBack(Breaker)"


def test_an_agent_whose_counters_stand_still_does_not_blind_the_breaker() -> None:
    run = loop(CATASTROPHE, tick=5.0)
    run.until_phase(Phase.RUN_IN)
    bystander = "http://127.0.0.1:9099"
    run.pool.join(bystander, config=START, now=run.now - 600)
    run.until_phase(Phase.WASHOUT)
    frozen = run.pool.counters(bystander, run.now // 5 * 5, run.now)
    begun = run.now - run.tick
    while run.exposed():
        seen = run.seen()
        run.last = replace(seen, newest={**seen.newest, bystander: frozen})
        decided = plan(run.last)
        run.write(decided)
        run.push(decided)
        run.now += run.tick
        assert run.now - begun < 120
    assert run.outcome() == "RolledBack(Breaker)"


def test_case_23_an_incumbent_that_violates_the_target_is_told_of_and_improvable() -> None:
    def poor(config: object) -> Response:
        return Response(hit_rate=0.56 if config == BETTER else 0.5, share=0.6 if config == BETTER else 0.5)

    run = loop(poor)
    run.until(lambda: bool(run.told(Reason.INCUMBENT_VIOLATES_TARGET)))
    healthy = run.condition(ConditionType.INCUMBENT_HEALTHY)
    assert (healthy.status, healthy.reason) == (Truth.FALSE, Reason.INCUMBENT_VIOLATES_TARGET)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert len(run.told(Reason.INCUMBENT_VIOLATES_TARGET)) == 1, "told once, not with every tick"


def test_a_candidate_agent_that_does_not_answer_ends_the_exposure() -> None:
    run = experimenting(Phase.MEASURING)
    gone = sorted(run.exposed())[0]
    run.pool.agents[gone].down = True
    begun = run.now
    run.until_ended()
    assert run.outcome() == "RolledBack(Breaker)"
    assert gone in run.experiment.status.message
    assert run.now - begun <= 30 + 30 + 6 * run.tick + 4 * run.tick


def test_a_control_agent_that_does_not_answer_ends_nothing() -> None:
    run = experimenting(Phase.MEASURING)
    control = sorted(set(run.pool.names()) - run.exposed())[0]
    run.pool.agents[control].down = True
    run.steps(5)
    run.pool.agents[control].down = False
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_case_12_when_nobody_answers_nothing_is_rolled_back_because_of_it() -> None:
    run = experimenting(Phase.MEASURING)
    for agent in run.pool.agents.values():
        agent.down = True
    run.steps(8)
    assert run.experiment.status.outcome is None
    for agent in run.pool.agents.values():
        agent.down = False
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_case_03_without_metrics_nothing_is_rolled_back_and_one_event_is_told() -> None:
    run = experimenting(Phase.MEASURING)
    why = Missing(reason=MissingReason.NO_DATA, message="http://127.0.0.1:9000/metrics: HTTP 503")
    told = len(run.told(Reason.NO_DATA))
    for agent in run.pool.agents.values():
        agent.missing = why
    run.steps(12)
    assert run.experiment.status.outcome is None
    available = run.condition(ConditionType.METRICS_AVAILABLE)
    assert (available.status, available.reason) == (Truth.FALSE, Reason.NO_DATA)
    assert "HTTP 503" in available.message
    assert len(run.told(Reason.NO_DATA)) == told + 1
    for agent in run.pool.agents.values():
        agent.missing = None
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert run.condition(ConditionType.METRICS_AVAILABLE).status is Truth.TRUE


def test_errors_of_the_candidate_arm_alone_end_the_experiment() -> None:
    run = experimenting(Phase.MEASURING)
    for name in run.exposed():
        run.pool.set_errors(run.now, per_second=2.0, name=name)
    run.until_ended()
    assert run.outcome() == "RolledBack(Breaker)"
    breach = run.experiment.status.breach
    assert breach is not None and breach.check == "errors"


def test_a_catastrophe_that_shows_while_the_winner_is_watched_is_reverted_at_once() -> None:
    run = experimenting(Phase.WATCHING)
    run.pool.set_surface(run.now, CATASTROPHE)
    begun = run.now
    run.until_ended()
    assert run.outcome() == "RolledBack(Breaker)"
    assert run.now - begun <= 90
    assert run.all_run(START)
