"""The reconciler's ends over fake ports: a stop in every phase, and the time that it was given."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.units import Duration
from kvtune_operator.reconcile import RunEnd
from kvtune_tuner.model import Verb
from tests.fakes.clock import ORIGIN
from tests.fakes.responses import flat
from tests.operator.control import NAME, Told, control
from tests.tuner.specs import QUICK, START, spec

RESTED = replace(QUICK, cooldown=Duration("10m"))


@pytest.mark.parametrize(
    "phase", [Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]
)
async def test_a_stop_restores_every_agent_and_then_returns(phase: Phase) -> None:
    plane = control()
    await plane.until_phase(phase)
    stop = asyncio.Event()
    stop.set()
    begun = plane.now
    assert await plane.plane.run(NAME, stop) is RunEnd.STOPPED
    assert plane.now - begun <= 60
    assert await plane.outcome() == "Aborted(Shutdown)"
    assert not plane.exposed()
    assert all(agent.incumbent == START for agent in plane.pool.agents.values())


async def test_a_stop_while_a_winner_waits_for_approval_loses_nothing() -> None:
    plane = control(spec=spec(Mode.RECOMMEND, RESTED))
    await plane.until_phase(Phase.AWAITING_APPROVAL)
    stop = asyncio.Event()
    stop.set()
    assert await plane.plane.run(NAME, stop) is RunEnd.STOPPED
    assert not plane.exposed()
    plane.restart(600)
    plane.objects.command(Verb.APPROVE, "chat-00001")
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"


async def test_a_stop_does_not_wait_for_ever_for_agents_that_are_gone_and_says_so() -> None:
    plane = control()
    await plane.until_phase(Phase.MEASURING)
    for agent in plane.pool.agents.values():
        agent.down = True
    stop = asyncio.Event()
    stop.set()
    begun = plane.now
    assert await plane.plane.run(NAME, stop) is RunEnd.UNCONFIRMED
    assert plane.now - begun <= 200


async def test_a_stop_of_a_resting_policy_returns_at_once() -> None:
    plane = control(spec=replace(spec(), paused=True))
    await plane.ticks(2)
    stop = asyncio.Event()
    stop.set()
    begun = plane.now
    assert await plane.plane.run(NAME, stop) is RunEnd.STOPPED
    assert plane.now == begun


async def test_nothing_starts_that_does_not_fit_into_the_time_left() -> None:
    plane = control(told=Told(ends_at=ORIGIN + timedelta(seconds=800)))
    await plane.ticks(30)
    assert not await plane.objects.experiments(NAME)
    why = await plane.condition(ConditionType.EXPERIMENTING)
    assert why.reason is Reason.BUDGET and "at least" in why.message


async def test_what_runs_at_the_end_of_the_time_given_is_aborted_and_restored() -> None:
    plane = control(flat(), told=Told(ends_at=ORIGIN + timedelta(seconds=1300)))
    await plane.until_ended()
    assert await plane.outcome() == "Aborted(Budget)"
    assert not plane.exposed()
    assert plane.now <= (ORIGIN + timedelta(seconds=1350)).timestamp()
    await plane.ticks(10)
    assert await plane.objects.experiments(NAME) == ("chat-00001",)


async def test_an_experiment_longer_than_max_duration_is_not_started_and_a_running_one_is_ended() -> None:
    plane = control(spec=spec(settings=replace(QUICK, max_duration=Duration("10m"))))
    await plane.ticks(5)
    assert (await plane.condition(ConditionType.EXPERIMENTING)).reason is Reason.TOO_LONG
    assert not await plane.objects.experiments(NAME)
