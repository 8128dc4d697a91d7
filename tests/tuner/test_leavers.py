"""Agents that leave, are drained, rolled out or evicted in every phase of an experiment."""

from dataclasses import replace

import pytest

from kvtune_api.metadata import Metadata
from kvtune_api.names import Phase, Reason
from kvtune_api.status import Pair
from kvtune_api.units import Duration
from kvtune_tuner.model import Departure, Leaving, PoolSeen
from kvtune_tuner.replay import replay
from tests.fakes.leaving import going, not_ready, rolled
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

RESTED = spec(settings=replace(QUICK, cooldown=Duration("10m")))
LATE = 15
"""Ticks in which a run without pairs is over: far below noDataTimeout (30 ticks)."""


def members(pair: Pair) -> set[str]:
    """Both agents of a pair."""
    return {pair.first, pair.second}


def candidate_of(run: Loop, index: int) -> str:
    """The agent of a pair that runs the candidate now."""
    return next(iter(members(run.experiment.spec.pairs[index]) & run.exposed()))


def newcomer(run: Loop, number: int) -> str:
    """A pod of another name that comes up with a configuration of its own."""
    name = f"http://127.0.0.1:{8000 + number}"
    run.pool.join(name, config=replace(START, cache_ttl=Duration("300s")), now=run.now - 60)
    return name


@pytest.mark.parametrize("arm", ["candidate", "control"])
@pytest.mark.parametrize("kind", Departure)
def test_the_pair_of_an_agent_that_is_about_to_leave_does_not_count_whichever_arm(
    arm: str, kind: Departure
) -> None:
    run = experimenting(Phase.MEASURING)
    candidate = candidate_of(run, 1)
    other = next(iter(members(run.experiment.spec.pairs[1]) - {candidate}))
    run.pods = PoolSeen(leaving={candidate if arm == "candidate" else other: Leaving(kind=kind, why="told")})
    run.until(lambda: any(row.block == 0 for row in run.rows))
    assert [row.dropped for row in run.rows if row.block == 0] == [None, "AgentLeft", None]
    run.until(lambda: any(row.block == 0 and row.epoch == 2 for row in run.rows))
    later = [row for row in run.rows if row.block == 0 and row.epoch == 2]
    assert [row.dropped for row in later] == [None, "AgentLeft", None]
    assert later[1].candidate is None and later[1].control is None


def test_a_pair_that_has_lost_an_agent_keeps_its_other_one_on_the_incumbent() -> None:
    run = experimenting(Phase.MEASURING)
    pair = run.experiment.spec.pairs[1]
    run.pool.leave(pair.first)
    epoch = run.experiment.status.epoch
    assert epoch is not None
    run.until(lambda: run.experiment.status.epoch is not None and run.experiment.status.epoch != epoch
              and run.experiment.status.epoch.switch_at > epoch.switch_at)  # fmt: skip
    run.steps(2)
    while run.phase in (Phase.WASHOUT, Phase.MEASURING):
        assert pair.second not in run.exposed()
        run.step()
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert replay(run.experiment).differences == ()


def test_an_agent_that_becomes_ready_again_counts_from_the_next_block_on() -> None:
    run = experimenting(Phase.MEASURING)
    name = run.experiment.spec.pairs[0].first
    run.pods = PoolSeen(leaving={name: not_ready()})
    run.steps(2)
    run.pods = PoolSeen()
    run.until_ended()
    dropped = {(row.block, row.pair) for row in run.rows if row.dropped == "AgentLeft"}
    assert dropped == {(0, 0)}
    assert run.outcome() == "Promoted(Superior)"


@pytest.mark.parametrize("phase", [Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING])
def test_a_rollout_that_replaces_all_agents_ends_soon_with_the_incumbent_everywhere(phase: Phase) -> None:
    run = loop(gaining(), spec=RESTED)
    run.until_phase(phase)
    for number, name in enumerate(run.pool.names()):
        run.pods = PoolSeen(leaving={name: rolled()})
        run.step()
        run.pool.leave(name)
        run.pods = PoolSeen()
        newcomer(run, number)
        run.step()
    run.until_ended(limit=LATE)
    assert run.outcome() == "Inconclusive(NoData)"
    assert "every pair has lost an agent" in run.experiment.status.message
    run.steps(2)
    assert run.all_run(START)
    assert not run.told(Reason.GUARDRAIL_TRIPPED) and not run.told(Reason.ROLLBACK_LATE)


def test_a_name_that_is_back_in_the_next_tick_has_not_ended_the_experiment() -> None:
    busy = PoolSettings(agents=2, seed=1, noise_sd=0.005, share_sd=0.005, request_rate=12.0)
    run = loop(gaining(), settings=busy, spec=RESTED)
    run.until_phase(Phase.MEASURING)
    name = run.experiment.spec.pairs[0].first
    run.pool.leave(name)
    run.step()
    assert run.experiment.status.outcome is None
    run.pool.join(name, config=START, now=run.now)
    run.until_ended(limit=1500)
    assert run.outcome() != "Inconclusive(NoData)"


def test_a_drained_candidate_that_falls_silent_trips_no_guard() -> None:
    run = experimenting(Phase.MEASURING)
    name = candidate_of(run, 0)
    run.pods = PoolSeen(leaving={name: going("drain of node-1")})
    run.pool.agents[name].down = True
    run.steps(8)
    assert run.experiment.status.outcome is None


def test_a_candidate_that_is_not_ready_and_silent_trips_the_guard() -> None:
    run = experimenting(Phase.MEASURING)
    name = candidate_of(run, 0)
    run.pods = PoolSeen(leaving={name: not_ready()})
    run.pool.agents[name].down = True
    run.until_ended()
    assert run.outcome() == "RolledBack(Breaker)"


def test_a_new_pod_gets_the_promoted_configuration() -> None:
    run = loop(gaining(), spec=RESTED)
    run.until_ended()
    assert run.status.incumbent == BETTER
    for number, name in enumerate(run.pool.names()):
        run.pool.leave(name)
        newcomer(run, number)
    run.steps(2)
    assert run.all_run(BETTER), "a pod that has no incumbent file, or another one, is given the promoted one"


@pytest.mark.parametrize("phase", [Phase.PROMOTING, Phase.WATCHING])
def test_a_promoted_agent_that_leaves_stops_no_promotion(phase: Phase) -> None:
    run = loop(gaining(), agents=9)
    run.until_phase(phase)
    watch = run.experiment.status.watch
    assert watch is not None
    name = next(n for n in run.pool.names() if n not in (watch.holdback, watch.partner))
    run.pods = PoolSeen(leaving={name: going("drain of node-1")})
    run.pool.agents[name].down = True
    run.steps(3)
    run.pool.leave(name)
    run.pods = PoolSeen()
    run.until_ended(limit=200)
    assert run.outcome() == "Promoted(Superior)"


@pytest.mark.parametrize("who", ["holdback", "partner"])
@pytest.mark.parametrize("phase", [Phase.PROMOTING, Phase.WATCHING])
def test_without_the_watched_pair_the_incumbent_is_kept_at_once(phase: Phase, who: str) -> None:
    run = loop(gaining(), agents=9, spec=RESTED)
    run.until_phase(phase)
    watch = run.experiment.status.watch
    assert watch is not None
    run.pool.leave(watch.holdback if who == "holdback" else watch.partner)
    run.until_ended(limit=10)
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.all_run(START)
    assert replay(run.experiment).differences == ()


def test_windows_that_are_over_decide_when_the_holdback_leaves_after_them() -> None:
    run = experimenting(Phase.WATCHING, spec=RESTED)
    run.until(
        lambda: run.experiment.status.watch is not None and run.experiment.status.watch.differences != ()
    )
    watch = run.experiment.status.watch
    assert watch is not None
    run.pool.leave(watch.holdback)
    run.until_ended(limit=5)
    assert run.outcome() == "Promoted(Superior)"
    assert replay(run.experiment).differences == ()


@pytest.mark.parametrize("phase", [Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING])
def test_case_38_a_policy_that_goes_with_its_whole_pool_ends_in_time_with_a_warning(phase: Phase) -> None:
    run = experimenting(phase)
    run.policy = replace(
        run.policy, metadata=replace(run.policy.metadata, deletion_timestamp="2030-01-01T00:10:00Z")
    )
    for name in run.pool.names():
        run.pool.leave(name)
    run.until_ended(limit=12)
    assert run.outcome() == "Aborted(Superseded)"
    assert any("the pool is gone" in text for text in run.told(Reason.ROLLBACK_LATE))


@pytest.mark.parametrize(
    "phase", [Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]
)
def test_an_experiment_that_is_deleted_ends_and_the_incumbents_are_restored(phase: Phase) -> None:
    run = loop(gaining(), spec=RESTED)
    run.until_phase(phase)
    found = run.experiment
    gone: Metadata = replace(found.metadata, deletion_timestamp="2030-01-01T00:10:00Z")
    run.experiments[found.metadata.name] = replace(found, metadata=gone)
    run.until_ended(limit=12)
    assert run.outcome() == "Aborted(User)"
    assert run.experiment.status.message == "the experiment was deleted"
    assert run.all_run(START)


def test_a_policy_that_becomes_invalid_ends_its_experiment() -> None:
    run = experimenting(Phase.MEASURING)
    run.invalid = "spec.knobs.cacheTTL.min: 20s is greater than max 10s"
    run.until_ended(limit=12)
    assert run.outcome() == "Aborted(Superseded)"
    assert "20s is greater than max" in run.experiment.status.message
    assert run.all_run(START)
