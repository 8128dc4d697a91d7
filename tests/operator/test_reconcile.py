"""The reconciler over fake ports: a policy's life, users' commands and edits."""

import asyncio
from dataclasses import replace

from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode, Selector
from kvtune_api.status import PolicyStatus, Truth
from kvtune_api.units import Duration
from kvtune_operator.reconcile import RunEnd
from kvtune_tuner.model import Verb
from kvtune_tuner.replay import replay
from tests.fakes.responses import flat
from tests.operator.control import NAME, POOL, Control, Told, control
from tests.tuner.specs import BETTER, QUICK, gaining, spec

RESTED = replace(QUICK, cooldown=Duration("10m"))


async def test_a_policy_in_a_better_configuration_out() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"
    assert (await plane.status()).incumbent == BETTER
    assert not plane.exposed()
    assert all(agent.incumbent == BETTER for agent in plane.pool.agents.values())
    assert replay(await plane.experiment()).differences == ()
    for reason in (Reason.EXPERIMENT_STARTED, Reason.PROMOTED, Reason.EXPERIMENT_ENDED):
        assert len(plane.told_of(reason)) == 1


async def test_case_20_a_second_reconcile_of_the_same_world_writes_nothing() -> None:
    plane = control(flat(), spec=spec(settings=RESTED))
    await plane.until_phase(Phase.MEASURING)
    await plane.plane.tick(NAME)
    writes, pushes = plane.objects.writes, len(plane.pool.log)
    for _ in range(3):
        await plane.plane.tick(NAME)
    assert plane.objects.writes == writes and len(plane.pool.log) == pushes


async def test_case_43_what_the_user_asked_for_is_never_written() -> None:
    plane = control(spec=spec(settings=RESTED))
    asked = (await plane.policy()).spec
    await plane.until_ended()
    found = await plane.policy()
    assert found.spec == asked and found.metadata.generation == 1
    assert found.status is not None and found.status.promoted is not None


async def test_case_42_a_resting_policy_costs_no_writes_and_keeps_nothing() -> None:
    quiet = replace(POOL, agents=2, noise_sd=0.0005, share_sd=0.0005, common_sd=0.0005)
    plane = control(flat(), spec=replace(spec(), paused=True), settings=quiet)
    await plane.ticks(20)
    writes, events = plane.objects.writes, len(plane.events.recorded)
    await plane.ticks(2000)
    assert plane.objects.writes == writes
    assert len(plane.events.recorded) == events and not plane.pool.log
    assert not plane.objects._commands


async def test_orders_of_users_are_carried_out_and_forgotten() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_phase(Phase.WASHOUT)
    plane.objects.command(Verb.ABORT, "chat-00001")
    await plane.until_ended()
    assert await plane.outcome() == "Aborted(User)"
    plane.objects.command(Verb.PAUSE)
    await plane.tick()
    assert (await plane.status()).phase is Phase.PAUSED
    plane.objects.command(Verb.RESUME)
    await plane.tick()
    assert (await plane.status()).phase is Phase.IDLE
    assert not await plane.objects.commands(NAME)


async def test_an_order_that_names_no_running_experiment_is_answered() -> None:
    plane = control(spec=spec(settings=RESTED))
    plane.objects.command(Verb.ABORT, "chat-00009")
    await plane.ticks(2)
    assert "chat-00009 is not running" in plane.told_of(Reason.NOT_AVAILABLE)[0].message
    assert not await plane.objects.commands(NAME)


async def test_case_21_an_edit_ends_the_running_experiment_and_changes_only_the_next() -> None:
    plane = control()
    await plane.until_phase(Phase.MEASURING)
    judged = (await plane.experiment()).spec
    edited = replace(spec(), experiment=replace(QUICK, alpha=0.01))
    plane.objects.apply(NAME, edited)
    await plane.tick()
    assert not plane.exposed(), "incumbents come first"
    await plane.until_ended()
    assert await plane.outcome() == "Aborted(Superseded)"
    assert (await plane.experiment()).spec == judged, "what was judged stays as it was"
    await plane.until(lambda status: status.experiments_started == 2)
    assert (await plane.experiment(2)).spec.policy_spec == edited


async def test_a_policy_marked_as_removed_restores_incumbents_before_the_run_ends() -> None:
    plane = control()
    await plane.until_phase(Phase.MEASURING)
    held = await plane.policy()
    metadata = replace(held.metadata, deletion_timestamp="2030-01-01T01:00:00Z")
    plane.objects._store_policy(replace(held, metadata=metadata))
    assert await plane.plane.run(NAME, asyncio.Event()) is RunEnd.REMOVED
    assert await plane.outcome() == "Aborted(Superseded)"
    assert not plane.exposed()


async def test_case_38_a_removed_policy_whose_pool_is_gone_ends_in_bounded_time_with_a_warning() -> None:
    plane = control()
    await plane.until_phase(Phase.MEASURING)
    for agent in plane.pool.agents.values():
        agent.down = True
    held = await plane.policy()
    metadata = replace(held.metadata, deletion_timestamp="2030-01-01T01:00:00Z")
    plane.objects._store_policy(replace(held, metadata=metadata))
    begun = plane.now
    assert await plane.plane.run(NAME, asyncio.Event()) is RunEnd.REMOVED
    assert plane.now - begun <= 30 + 8 * 10
    assert plane.told_of(Reason.ROLLBACK_LATE)


async def test_a_policy_that_vanished_ends_the_run_and_leases_bring_agents_home() -> None:
    plane = control()
    await plane.until_phase(Phase.MEASURING)
    plane.objects.delete_policy(NAME)
    assert await plane.plane.run(NAME, asyncio.Event()) is RunEnd.REMOVED
    plane.clock.advance(31)
    assert not plane.exposed()


async def test_case_36_what_was_asked_while_nobody_ran_is_done_at_the_next_start() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_phase(Phase.MEASURING)
    plane.objects.command(Verb.ABORT, "chat-00001")
    plane.objects.apply(NAME, spec(Mode.RECOMMEND, RESTED))
    plane.restart(3600)
    await plane.until_ended()
    assert (await plane.outcome()).startswith("Aborted")
    assert (await plane.status()).observed_generation == 2
    assert not await plane.objects.commands(NAME)


async def test_a_policy_made_anew_does_not_write_over_the_records_of_the_old_one() -> None:
    plane = control(gaining(-0.06), spec=spec(settings=RESTED))
    await plane.until_ended()
    old = await plane.experiment(1)
    plane.objects.delete_policy(NAME)
    plane.objects.apply(NAME, spec(settings=RESTED))
    await plane.until_ended()
    assert await plane.experiment(1) == old
    assert (await plane.experiment(2)).status.outcome is not None


async def test_a_policy_of_another_uid_leaves_a_live_experiment_of_the_old_one_and_numbers_on() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_phase(Phase.MEASURING)
    old = await plane.experiment(1)
    made_anew(plane, "another")
    plane.clock.advance(31)
    await plane.until(lambda status: status.experiment is not None)
    assert (await plane.status()).experiment == "chat-00002"
    assert await plane.experiment(1) == old


async def test_a_status_that_names_another_policys_experiment_is_numbered_past_it() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_phase(Phase.MEASURING)
    old, status = await plane.experiment(1), await plane.status()
    made_anew(plane, "another", replace(status, experiments_started=0))
    plane.clock.advance(31)
    await plane.until(lambda status: status.experiment not in (None, "chat-00001"))
    assert (await plane.status()).experiment == "chat-00002"
    assert await plane.experiment(1) == old


async def test_agents_that_leave_the_selector_in_mid_experiment_are_told_the_incumbent() -> None:
    plane = control(spec=spec(settings=RESTED))
    await plane.until_phase(Phase.MEASURING)
    exposed = plane.exposed()
    outside = next(name for name in plane.pool.names() if name not in exposed)
    plane.objects.apply(NAME, replace(spec(settings=RESTED), selector=Selector(addresses=(outside,))))
    await plane.until_ended()
    assert exposed
    assert not plane.exposed()
    assert not plane.told_of(Reason.LEASE_LAPSED)


def made_anew(plane: Control, uid: str, status: PolicyStatus | None = None) -> None:
    """The policy as another object of its name."""
    plane.objects.delete_policy(NAME)
    stored = plane.objects.apply(NAME, spec(settings=RESTED))
    anew = replace(stored, metadata=replace(stored.metadata, uid=uid), status=status)
    plane.objects._store_policy(anew)


async def test_at_60x_leases_count_wall_time_and_the_loop_ends_alike() -> None:
    plane = control(spec=spec(settings=replace(RESTED, lease_duration=Duration("3s"))), told=Told(speed=60.0))
    await plane.until_phase(Phase.MEASURING)
    assert {push.lease_seconds for _, _, push in plane.pool.log if push.lease_seconds} == {3.0}
    await plane.until_ended()
    assert await plane.outcome() == "Promoted(Superior)"


async def test_agents_are_pushed_to_only_after_the_statuses_are_safe() -> None:
    plane = control()
    order: list[str] = []
    plane.objects.interfere = lambda: order.append("write")
    pushed = len(plane.pool.log)
    while len(plane.pool.log) == pushed:
        order.clear()
        await plane.tick()
    assert order == ["write", "write"]
    assert (await plane.experiment()).status.epoch is not None


async def test_refused_pushes_are_told_once_while_they_stay_the_same() -> None:
    plane = control(flat(), spec=spec(settings=RESTED))
    for agent in plane.pool.agents.values():
        agent.refuses_token = True
        agent.config = agent.incumbent = BETTER
    await plane.ticks(10)
    told = [item for item in plane.events.recorded if "wrong bearer token" in item.event.message]
    assert len(told) == 6 and all(item.count == 1 for item in told)
    assert (await plane.condition(ConditionType.CONVERGED)).status is Truth.FALSE
