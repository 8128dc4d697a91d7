"""Ports that fail: the store, the metrics, the agents; and writers who win every race."""

from dataclasses import replace
from random import Random

import pytest

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_tuner.model import Verb
from tests.operator.control import NAME, control
from tests.tuner.loop import key
from tests.tuner.specs import QUICK, START, gaining, spec

RESTED = spec(settings=replace(QUICK, cooldown=Duration("10m")))


async def test_without_a_store_nobody_is_told_anything_and_leases_bring_agents_home() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    pushed = len(plane.pool.log)
    plane.objects.broken = "state directory: No space left on device"
    await plane.ticks(8)
    assert len(plane.pool.log) == pushed
    assert not plane.exposed()
    plane.objects.broken = None
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"
    assert plane.told_of(Reason.LEASE_LAPSED)


async def test_a_store_that_fails_for_less_than_a_lease_changes_nothing() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    plane.objects.broken = "timed out"
    await plane.tick()
    plane.objects.broken = None
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"
    assert not plane.told_of(Reason.LEASE_LAPSED)


async def test_a_store_that_fails_is_an_error_of_its_tick_not_of_the_run() -> None:
    plane = control()
    plane.objects.broken = "timed out"
    with pytest.raises(Unavailable, match="timed out"):
        await plane.plane.tick(NAME)
    assert await plane.plane.safe_tick(NAME, shutdown=False) is None


async def test_a_right_that_is_lacking_is_one_event_until_it_is_given() -> None:
    plane = control()
    plane.objects.lacking = "may not update kvcachepolicies/status in namespace chat"
    await plane.ticks(5)
    [told] = plane.told_of(Reason.FORBIDDEN)
    assert told.message == plane.objects.lacking
    plane.objects.lacking = None
    await plane.until_phase(Phase.MEASURING)


async def test_case_28_a_lost_race_is_read_again_and_loses_no_evidence() -> None:
    plane = control(spec=RESTED)
    chance = Random(7)

    def now_and_then() -> None:
        if chance.random() < 0.3:
            plane.objects.touch()

    plane.objects.interfere = now_and_then
    await plane.until_ended()
    rows = (await plane.experiment()).status.rows
    assert await plane.outcome() == "Promoted(Superior)"
    assert len(key(rows)) == len(set(key(rows))) == 30
    assert {row.attempt for row in rows} == {0}
    assert (await plane.status()).experiments_started == 1


async def test_a_storm_of_writers_stops_the_tick_and_not_the_run() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    plane.objects.command(Verb.ABORT)
    plane.objects.interfere = plane.objects.touch
    with pytest.raises(Conflict):
        await plane.plane.tick(NAME)
    await plane.ticks(10)
    assert not plane.exposed(), "nobody was told anything, leases have ended"
    plane.objects.interfere = None
    await plane.until_ended()
    assert await plane.outcome() == "Aborted(User)"


PHASES = [Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]


@pytest.mark.parametrize("phase", [*PHASES, Phase.AWAITING_APPROVAL])
@pytest.mark.parametrize("metrics", [None, "http://prometheus:9090: HTTP 502"])
async def test_case_24_abort_works_in_every_phase_with_or_without_metrics(
    phase: Phase, metrics: str | None
) -> None:
    waits = phase is Phase.AWAITING_APPROVAL
    plane = control(spec=replace(RESTED, mode=Mode.RECOMMEND) if waits else RESTED)
    await plane.until_phase(phase)
    plane.metrics.broken = metrics
    await plane.tick()
    plane.objects.command(Verb.ABORT, "chat-00001")
    await plane.tick()
    assert not plane.exposed()
    await plane.until_ended(limit=20)
    assert await plane.outcome() == "Aborted(User)"
    assert all(agent.incumbent == START for agent in plane.pool.agents.values())


async def test_case_03_metrics_that_fail_as_a_whole_are_a_condition_and_one_event() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.WASHOUT)
    plane.metrics.broken = "http://prometheus:9090/api/v1/query: HTTP 503"
    await plane.ticks(12)
    available = await plane.condition(ConditionType.METRICS_AVAILABLE)
    assert (available.status, available.reason) == (Truth.FALSE, Reason.NO_DATA)
    assert "HTTP 503" in available.message
    told = [item for item in plane.events.recorded if "HTTP 503" in item.event.message]
    assert len(told) == 1 and told[0].count == 1
    assert (await plane.experiment()).status.outcome is None, "no rollback because of it"
    plane.metrics.broken = None
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"


async def test_case_02_metrics_that_never_come_back_end_as_no_data_with_the_incumbent_restored() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    plane.metrics.broken = "HTTP 503"
    begun = plane.now
    await plane.until_ended()
    assert await plane.outcome() == "Inconclusive(NoData)"
    assert plane.now - begun <= 300 + 4 * 80 + 200
    assert all(agent.incumbent == START for agent in plane.pool.agents.values())


async def test_a_wrong_token_is_told_and_the_experiment_ends_without_a_verdict() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.RUN_IN)
    for agent in plane.pool.agents.values():
        agent.refuses_token = True
    await plane.until_ended()
    assert await plane.outcome() == "Inconclusive(NoData)"
    told = [item for item in plane.events.recorded if "wrong bearer token" in item.event.message]
    assert told and "Unauthorized" in told[0].event.message
    assert not plane.exposed()


async def test_agents_that_all_fail_to_answer_raise_nothing_and_start_nothing() -> None:
    plane = control(spec=RESTED)
    for agent in plane.pool.agents.values():
        agent.slow = True
    await plane.ticks(5)
    ready = await plane.condition(ConditionType.AGENTS_READY)
    assert ready.reason is Reason.UNREACHABLE and "no answer within" in ready.message
    assert not await plane.objects.experiments(NAME)


async def test_case_26_however_an_experiment_ends_all_exposure_ends() -> None:
    for surface in (gaining(-0.06), gaining(-0.25, -0.6)):
        plane = control(surface, spec=RESTED)
        await plane.until_ended()
        assert not plane.exposed()
        assert all(agent.incumbent == START for agent in plane.pool.agents.values())
