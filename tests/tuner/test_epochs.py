"""Epochs under faults: what drops a pair, what repeats a block, what ends an experiment without a verdict."""

from dataclasses import replace

import pytest

from kvtune_api.experiment import Epoch
from kvtune_api.ledger import RING_ROWS
from kvtune_api.names import Phase, Reason
from kvtune_api.ranges import Bounds
from kvtune_api.units import Duration
from kvtune_api.wire import Role
from kvtune_tuner.replay import replay
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import BEGIN, Loop, experimenting, key, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec


def at(block: int, epoch: int, phase: Phase = Phase.MEASURING) -> Loop:
    """A loop in a test epoch of its first experiment."""
    run = loop(gaining())
    run.until(lambda: run.phase is phase and _place(run) == (block, epoch))
    return run


@pytest.mark.parametrize("arm", ["candidate", "control"])
@pytest.mark.parametrize("epoch", [1, 2])
def test_case_13_a_restart_in_a_window_drops_the_pair_for_both_arms_and_the_block_goes_on(
    arm: str, epoch: int
) -> None:
    run = at(1, epoch)
    exposed = run.exposed()
    name = sorted(exposed if arm == "candidate" else set(run.pool.names()) - exposed)[0]
    run.pool.restart(name, run.now)
    pair = next(i for i, p in enumerate(run.experiment.spec.pairs) if name in (p.first, p.second))
    run.until_ended()
    dropped = [row for row in run.rows if row.dropped is not None]
    assert [(row.block, row.epoch, row.pair, row.dropped) for row in dropped] == [
        (1, epoch, pair, "Restarted")
    ]
    assert run.outcome() == "Promoted(Superior)"
    assert run.experiment.status.evidence.deltas in (8, 11), "one Delta less"
    assert name in next(m for m in run.told(Reason.EPOCH_DROPPED) if "does not count" in m)
    assert replay(run.experiment).differences == ()


def test_a_counter_that_falls_without_a_restart_drops_its_pair() -> None:
    run = at(0, 1)
    name = run.pool.names()[0]
    began = run.pool.agents[name].started_at
    run.pool.restart(name, run.now)
    run.pool.agents[name].started_at = began
    run.until_ended()
    assert {row.dropped for row in run.rows if row.dropped} <= {"CounterDecreased", "ConfigDrift"}
    assert any(row.dropped for row in run.rows)


def test_an_agent_that_joins_stays_out_and_gets_the_incumbent() -> None:
    run = at(0, 1)
    joiner = "http://127.0.0.1:9050"
    run.pool.join(joiner, config=replace(START, cache_ttl=Duration("300s")), now=run.now)
    run.steps(2)
    assert joiner not in run.exposed() and run.running()[joiner][1] == START
    while run.phase in (Phase.WASHOUT, Phase.MEASURING):
        assert joiner not in run.exposed()
        run.step()
    assert joiner not in {n for p in run.experiment.spec.pairs for n in (p.first, p.second)}
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


@pytest.mark.parametrize("arm", ["candidate", "control"])
def test_an_agent_that_leaves_ends_its_pair_and_nothing_else(arm: str) -> None:
    run = at(0, 2)
    exposed = run.exposed()
    name = sorted(exposed if arm == "candidate" else set(run.pool.names()) - exposed)[0]
    pair = next(i for i, p in enumerate(run.experiment.spec.pairs) if name in (p.first, p.second))
    run.pool.leave(name)
    run.until_ended()
    later = [row for row in run.rows if (row.block, row.epoch) >= (0, 2)]
    assert all((row.dropped is not None) == (row.pair == pair) for row in later)
    assert run.outcome() == "Promoted(Superior)", "two pairs went on"


def test_when_every_pair_has_lost_an_agent_the_experiment_ends_without_data() -> None:
    run = at(0, 1)
    for pair in run.experiment.spec.pairs:
        run.pool.leave(pair.first)
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.all_run(START)


def test_case_01_an_epoch_without_requests_is_missing_and_fails_nothing() -> None:
    run = at(0, 1, Phase.WASHOUT)
    run.pool.set_traffic(run.now, request_rate=0.0)
    run.until(lambda: any(row.dropped for row in run.rows))
    rows = [row for row in run.rows if row.dropped]
    assert {row.dropped for row in rows} == {"NoTraffic"}
    assert run.experiment.status.outcome is None
    run.pool.set_traffic(run.now, request_rate=5.0)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert run.experiment.status.decisions[0].attempt >= 1, "the block was repeated"


def test_case_02_traffic_that_stops_holds_and_then_ends_as_no_data() -> None:
    run = at(2, 1)
    judged = run.experiment.status.evidence.deltas
    assert judged == 6, "there is evidence already"
    run.pool.set_traffic(run.now, request_rate=0.0)
    stopped = run.now
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.experiment.status.evidence.deltas == 6, "silence is no evidence"
    assert 300 <= run.now - stopped <= 300 + 4 * 80 + 100
    assert "noDataTimeout" in run.experiment.status.message
    assert run.all_run(START)


@pytest.mark.parametrize("reason", [MissingReason.NAN, MissingReason.AMBIGUOUS, MissingReason.NO_DATA])
def test_case_06_08_10_numbers_that_are_none_drop_their_pair_with_the_reason(reason: MissingReason) -> None:
    run = at(0, 1)
    name = run.pool.names()[0]
    run.pool.agents[name].missing = Missing(reason=reason, message=f"{name}: no number")
    run.until(lambda: any(row.block == 0 for row in run.rows))
    run.pool.agents[name].missing = None
    dropped = [row for row in run.rows if row.dropped]
    assert {row.dropped for row in dropped} == {str(reason)} and len(dropped) == 1
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_case_09_counters_that_are_a_little_late_are_asked_for_again_in_the_next_tick() -> None:
    run = at(0, 1)
    run.until(lambda: run.now >= _epoch(run).measure_to)
    name = run.pool.names()[0]
    run.pool.agents[name].missing = Missing(reason=MissingReason.NO_DATA, message="not closed yet")
    run.step()
    assert "waiting for the counters" in run.status.waiting_for and name in run.status.waiting_for
    run.pool.agents[name].missing = None
    run.step()
    assert len([row for row in run.rows if row.block == 0]) == 3
    assert all(row.dropped is None for row in run.rows)


def test_case_11_what_is_missing_is_said_with_agent_window_and_reason() -> None:
    run = at(0, 1)
    name = run.pool.names()[0]
    run.pool.agents[name].nan = True
    run.until(lambda: run.now >= _epoch(run).measure_to)
    run.step()
    assert name in run.status.waiting_for and "NaN" in run.status.waiting_for
    run.until(lambda: any(row.block == 0 for row in run.rows))
    assert "block 1 epoch 1: 1 of 3 pairs do not count (NaN)" in run.told(Reason.EPOCH_DROPPED)
    (dropped,) = [row for row in run.rows if row.dropped]
    assert dropped.end - dropped.start == 60


def test_bounds_that_no_agent_keeps_any_more_are_missed_not_guessed() -> None:
    settings = PoolSettings(agents=6, seed=1, noise_sd=0.005, share_sd=0.005, ring_seconds=400)
    run = loop(gaining(), settings=settings)
    run.until_phase(Phase.RUN_IN)
    run.away(600.0)
    run.step()
    run.step()
    assert {row.dropped for row in run.rows} <= {"BoundMissed"}


def test_an_agent_that_takes_the_push_but_changes_nothing_drops_its_pair() -> None:
    run = experimenting(Phase.RUN_IN)
    name = run.pool.names()[0]
    run.pool.agents[name].shrug = True
    run.until(lambda: any(row.block >= 0 for row in run.rows))
    pair = next(i for i, p in enumerate(run.experiment.spec.pairs) if name in (p.first, p.second))
    first = [row for row in run.rows if row.block == 0 and row.pair == pair]
    coin = first[0].coin
    second = run.experiment.spec.pairs[pair].second == name
    expected = "ConfigDrift" if coin == second else None
    assert first[0].dropped == expected
    run.until_ended()
    assert any(row.dropped == "ConfigDrift" for row in run.rows)
    assert run.outcome() in ("Promoted(Superior)", "RolledBack(PromotionFailed)")


@pytest.mark.parametrize("washout", ["5s", "20s", "60s"])
def test_nothing_is_measured_before_every_agent_that_answers_has_switched(washout: str) -> None:
    settings = replace(QUICK, washout=replace(QUICK.washout, min=Duration(washout), max=Duration(washout)))
    run = loop(gaining(), spec=spec(settings=settings))
    run.until_phase(Phase.RUN_IN)
    for agent in run.pool.agents.values():
        agent.refuses_token = True
    run.until_phase(Phase.WASHOUT)
    run.until_ended()
    test = [row for row in run.rows if row.block >= 0]
    assert all(row.dropped is not None for row in test)
    assert run.outcome() == "Inconclusive(NoData)"


def test_an_agent_that_switches_late_restarts_the_washout() -> None:
    run = at(0, 1, Phase.WASHOUT)
    name = sorted(run.exposed())[0]
    agent = run.pool.agents[name]
    agent.config, agent.role, agent.lease_ends = START, Role.INCUMBENT, None
    agent.refuses_token = True
    before = _epoch(run)
    run.steps(4)
    agent.refuses_token = False
    run.until_phase(Phase.MEASURING)
    assert _epoch(run).measure_from >= before.measure_from + 30
    assert _epoch(run).generation == before.generation
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)" and not any(row.dropped for row in run.rows)


def test_a_block_may_be_repeated_hundreds_of_times_without_growing_for_ever() -> None:
    settings = replace(QUICK, no_data_timeout=Duration("24h"), max_duration=Duration("24h"))
    run = loop(gaining(), spec=spec(settings=settings))
    run.until_phase(Phase.MEASURING)
    run.pool.set_traffic(run.now, request_rate=0.0)
    run.steps(500)
    assert len(run.rows) <= RING_ROWS + 6
    assert run.experiment.status.epoch is not None and run.experiment.status.epoch.attempt > 40
    run.pool.set_traffic(run.now, request_rate=5.0)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert replay(run.experiment).differences == ()


def test_case_05_no_bound_lies_after_the_newest_closed_sample() -> None:
    run = loop(gaining())
    while not run.status.trials:
        decided = run.step()
        at_most = run.now - run.tick
        rows = decided.experiment.status.rows if decided.experiment else ()
        assert all(row.end <= at_most for row in rows)
        assert all(row.start % 5 == 0 and row.end % 5 == 0 for row in rows)
    assert min(row.start for row in run.rows) > BEGIN
    assert len(key(run.rows)) == len(set(key(run.rows)))
    assert run.status.incumbent == BETTER


def _epoch(run: Loop) -> Epoch:
    epoch = run.experiment.status.epoch
    assert epoch is not None
    return epoch


def _place(run: Loop) -> tuple[int, int]:
    epoch = run.experiment.status.epoch
    return (epoch.block, epoch.epoch) if epoch is not None else (-9, 0)


def test_windows_grow_when_traffic_becomes_too_thin_for_min_requests() -> None:
    bounds = Bounds(min=Duration("60s"), max=Duration("300s"))
    run = loop(gaining(), spec=spec(settings=replace(QUICK, window=bounds, min_requests=500)))
    run.until(lambda: run.phase is Phase.WASHOUT)
    before = run.experiment.status.window
    run.pool.set_traffic(run.now, request_rate=1.2)
    run.until(lambda: run.experiment.status.window > before)
    assert {row.dropped for row in run.rows if row.dropped} == {"TooFewRequests"}
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
