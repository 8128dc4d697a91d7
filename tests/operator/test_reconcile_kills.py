"""The control plane killed between two calls of its ports, and two of them at once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_operator.reconcile import RunEnd
from kvtune_tuner.model import Verb
from kvtune_tuner.replay import replay
from tests.operator.control import NAME, Control, Killed, control
from tests.tuner.loop import key
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

RESTED = spec(settings=replace(QUICK, cooldown=Duration("10m")))


def _before_experiment(plane: Control) -> None:
    plane.objects.kill_before = "put_experiment"


def _after_experiment(plane: Control) -> None:
    plane.objects.kill_after = "put_experiment"


def _after_status(plane: Control) -> None:
    plane.objects.kill_after = "put_policy_status"


def _after_push(plane: Control) -> None:
    plane.agents.kill_after_push = True


POINTS: dict[str, Callable[[Control], None]] = {
    "before the experiment is written": _before_experiment,
    "after the experiment, before the status": _after_experiment,
    "after the status, before the pushes": _after_status,
    "after the pushes, before the events": _after_push,
}


async def _killed(plane: Control, limit: int = 100) -> None:
    """Tick until the control plane dies where it was told to."""
    with pytest.raises(Killed):
        await plane.ticks(limit)


@pytest.mark.parametrize(
    "phase", [Phase.IDLE, Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]
)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("after_seconds", [0.0, 15.0])
async def test_killed_at_a_write_it_comes_to_the_verdict_of_an_undisturbed_run(
    phase: Phase, point: str, after_seconds: float
) -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(phase)
    POINTS[point](plane)
    await _killed(plane)
    plane.restart(after_seconds)
    await plane.until_ended()
    await plane.tick()
    assert await plane.outcome() == "Promoted(Superior)"
    found = await plane.experiment()
    keys = key(found.status.rows)
    assert len(keys) == len(set(keys)) == 4 * 3 + 3 * 6, "two run-in blocks, three test blocks, none twice"
    assert {row.attempt for row in found.status.rows} == {0}
    assert replay(found).differences == ()
    assert all(agent.incumbent == BETTER for agent in plane.pool.agents.values())
    status = await plane.status()
    assert status.experiments_started == 1 and len(status.trials) == 1
    assert not plane.told_of(Reason.OUT_OF_SYNC), "no push was refused"


@pytest.mark.parametrize("point", POINTS)
async def test_killed_while_restoring_it_ends_alike(point: str) -> None:
    plane = control(gaining(-0.06), spec=RESTED)
    await plane.until_phase(Phase.ROLLING_BACK)
    if point == "after the pushes, before the events":
        plane.pool.agents[plane.pool.names()[0]].config = BETTER
    POINTS[point](plane)
    await _killed(plane)
    plane.restart(15.0)
    await plane.until_ended()
    await plane.tick()
    assert await plane.outcome() == "Rejected(HarmObjective)"
    assert len((await plane.status()).trials) == 1
    assert all(agent.incumbent == START for agent in plane.pool.agents.values())


async def test_an_experiment_left_by_a_killed_creation_is_taken_over() -> None:
    plane = control(spec=RESTED)
    _after_experiment(plane)
    await _killed(plane)
    assert await plane.objects.experiments(NAME) == ("chat-00001",)
    plane.restart(300)
    await plane.until_ended()
    assert await plane.objects.experiments(NAME) == ("chat-00001",)
    assert await plane.outcome() == "Promoted(Superior)"


async def test_an_order_carried_out_but_not_forgotten_is_harmless() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    plane.objects.command(Verb.ABORT)
    plane.objects.kill_before = "forget"
    await _killed(plane)
    plane.restart(10)
    await plane.until_ended()
    assert await plane.outcome() == "Aborted(User)"
    assert not await plane.objects.commands(NAME)


async def test_killed_and_not_back_agents_return_to_the_incumbent_by_themselves() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    assert len(plane.exposed()) == 3
    plane.clock.advance(31)
    assert not plane.exposed()
    plane.restart(3600)
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"
    assert plane.told_of(Reason.LEASE_LAPSED)
    rows = (await plane.experiment()).status.rows
    assert len(key(rows)) == len(set(key(rows)))


async def test_case_27_of_two_control_planes_the_stale_one_is_refused_and_ends() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    stale = plane.plane
    plane.restart()
    await plane.tick()
    stop = asyncio.Event()
    assert await stale.run(NAME, stop) is RunEnd.FENCED
    assert max(push.token for _, _, push in plane.pool.log) == plane.token, "it never raises its own token"
    fenced = await plane.condition(ConditionType.FENCED)
    assert (fenced.status, fenced.reason) == (Truth.TRUE, Reason.FENCED)
    assert plane.told_of(Reason.FENCED)
    await plane.tick()
    assert (await plane.condition(ConditionType.FENCED)).status is Truth.FALSE, "the new one is not fenced"
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"
    rows = (await plane.experiment()).status.rows
    assert len(key(rows)) == len(set(key(rows)))


async def test_a_fenced_control_plane_pushes_nothing_more() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.MEASURING)
    stale = plane.plane
    plane.restart()
    await plane.tick()
    end = None
    while end is None:
        pushed = len(plane.pool.log)
        end = await stale.safe_tick(NAME, shutdown=False)
        assert len(plane.pool.log) == pushed
        plane.clock.advance(5)
    assert end is RunEnd.FENCED


async def test_two_control_planes_that_tick_side_by_side_count_no_epoch_twice() -> None:
    plane = control(spec=RESTED)
    await plane.until_phase(Phase.RUN_IN)
    old, fenced = plane.plane, False
    plane.restart()
    while not (await plane.status()).trials:
        if not fenced:
            fenced = await old.safe_tick(NAME, shutdown=False) is RunEnd.FENCED
        await plane.tick()
    assert fenced
    rows = (await plane.experiment()).status.rows
    assert len(key(rows)) == len(set(key(rows)))
    assert await plane.outcome() == "Promoted(Superior)"
