"""The control plane killed at any line: same coins, no epoch twice, the verdict of an undisturbed run.

A killed control plane is one that wrote some of what a plan says and no more; the next one has only what was
written and what the agents hold.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from kvtune_api.experiment import BlockKind
from kvtune_api.names import Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.units import Duration
from kvtune_api.wire import Role
from kvtune_tuner.assign import coin
from kvtune_tuner.model import Plan, Verb
from kvtune_tuner.plan import plan
from kvtune_tuner.replay import replay
from tests.tuner.loop import LEASE_SECONDS, Loop, key, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec

PHASES = [
    Phase.RUN_IN,
    Phase.WASHOUT,
    Phase.MEASURING,
    Phase.AWAITING_APPROVAL,
    Phase.PROMOTING,
    Phase.WATCHING,
    Phase.ROLLING_BACK,
]

GAINS = (0.06, -0.06)


def _nothing(run: Loop, decided: Plan) -> None:
    pass


def _experiment_only(run: Loop, decided: Plan) -> None:
    if decided.experiment is not None:
        run.experiments[decided.experiment.metadata.name] = decided.experiment


def _statuses_only(run: Loop, decided: Plan) -> None:
    run.write(decided)
    run.events = run.events[: len(run.events) - len(decided.events)]
    run.wishes = [*run.wishes, *decided.done]


def _all_but_events(run: Loop, decided: Plan) -> None:
    _statuses_only(run, decided)
    run.push(decided)


KILLS: dict[str, Callable[[Loop, Plan], None]] = {
    "before anything is written": _nothing,
    "after the experiment, before the status": _experiment_only,
    "after the statuses, before the pushes": _statuses_only,
    "after the pushes, before events and commands": _all_but_events,
}


RESTED = spec(settings=replace(QUICK, cooldown=Duration("10m")))
"""So that the pool is looked at before the next experiment."""


@cache
def undisturbed(gain: float) -> tuple[Loop, tuple[Loop, ...]]:
    """A whole run, and copies of it before each kind of tick at which the experiment was written."""
    run = loop(gaining(gain), spec=RESTED)
    copies: dict[object, Loop] = {}
    while not run.status.trials:
        run.last = None
        before, then = deepcopy(run), run.phase
        if run.step().experiment is not None:
            epoch = run.experiment.status.epoch
            copies.setdefault((then, run.phase, epoch and epoch.epoch, epoch and epoch.kind), before)
    return run, tuple(copies.values())


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_at_any_write_changes_no_row_and_no_verdict(kill: str, gain: float) -> None:
    whole, copies = undisturbed(gain)
    assert len(copies) >= 8
    for before in copies:
        run = deepcopy(before)
        KILLS[kill](run, plan(run.seen()))
        run.away(0.0)
        run.until_ended(limit=200)
        assert key(run.rows) == key(whole.rows), "same epochs, same coins, none twice"
        assert run.outcome() == whole.outcome()
        assert len(run.status.trials) == 1
        assert run.status.incumbent == whole.status.incumbent
        run.step()
        assert run.all_run(BETTER if gain > 0 else START)
        assert replay(run.experiments["chat-00001"]).differences == ()
        assert not run.refusals


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("seconds", [4.0, 15.0])
def test_a_control_plane_back_within_the_lease_comes_to_the_same_verdict(seconds: float, gain: float) -> None:
    whole, copies = undisturbed(gain)
    for before in copies:
        run = deepcopy(before)
        run.away(seconds)
        run.until_ended(limit=200)
        assert key(run.rows) == key(whole.rows)
        assert run.outcome() == whole.outcome()
        assert not run.told(Reason.LEASE_LAPSED)


@pytest.mark.parametrize("phase", [Phase.WASHOUT, Phase.MEASURING])
@pytest.mark.parametrize("epoch", [1, 2])
def test_away_longer_than_the_lease_the_block_is_repeated_for_all_pairs_with_new_coins(
    phase: Phase, epoch: int
) -> None:
    run = loop(gaining())
    run.until(lambda: run.phase is phase and _block(run) == (1, epoch))
    before = run.exposed()
    assert len(before) == 3
    run.step()
    run.now += LEASE_SECONDS + 5
    assert not run.exposed(), "agents have gone back by themselves"
    assert all(found == (Role.INCUMBENT, START) for found in run.running().values())
    run.away(25.0)
    run.step()
    assert len(run.told(Reason.LEASE_LAPSED)) == 1
    assert all(row.dropped == "LeaseLapsed" for row in run.rows if (row.block, row.attempt) == (1, 0))
    again = run.experiment.status.epoch
    assert again is not None and (again.block, again.attempt, again.epoch) == (1, 1, 1)
    seed = run.experiment.spec.seed
    run.until_ended()
    rows = [row for row in run.rows if (row.block, row.attempt) == (1, 1)]
    assert {row.pair for row in rows} == {0, 1, 2}
    assert all(row.coin == coin(seed, block=1, pair_index=row.pair, attempt=1) for row in rows)
    assert run.outcome() == "Promoted(Superior)"
    assert replay(run.experiment).differences == ()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("seconds", [45.0, 3600.0])
def test_away_longer_than_the_lease_in_any_phase_ends_well(phase: Phase, seconds: float) -> None:
    run = loop(gaining(), spec=spec(Mode.RECOMMEND if phase is Phase.AWAITING_APPROVAL else Mode.AUTO))
    if phase is Phase.ROLLING_BACK:
        run = loop(gaining(-0.06))
    run.until_phase(phase)
    run.away(seconds)
    assert not run.exposed()
    run.step()
    if phase is Phase.AWAITING_APPROVAL:
        assert run.phase is phase
        run.wish(Verb.APPROVE, "chat-00001")
    run.until_ended(limit=400)
    keys = key(run.rows)
    assert len(keys) == len(set(keys)), "no epoch is counted twice"
    assert run.experiment.status.outcome is not None
    assert run.all_run(run.status.incumbent or START)
    if seconds < 60:
        expected = "Rejected(HarmObjective)" if phase is Phase.ROLLING_BACK else "Promoted(Superior)"
        assert run.outcome() == expected


def test_a_run_in_that_was_not_watched_still_counts_for_agents_keep_their_counters() -> None:
    whole, _ = undisturbed(0.06)
    run = loop(gaining())
    run.until_phase(Phase.RUN_IN)
    epoch = run.experiment.status.epoch
    assert epoch is not None
    run.now = epoch.measure_to + 1000
    run.step()
    first = [row for row in run.rows if row.epoch == 1 and row.block == -2]
    assert first == [row for row in whole.rows if row.epoch == 1 and row.block == -2]


def test_coins_come_from_the_experiments_seed_alone() -> None:
    whole, _ = undisturbed(0.06)
    seed = whole.experiment.spec.seed
    assert all(
        row.coin == coin(seed, block=row.block, pair_index=row.pair, attempt=row.attempt)
        for row in whole.rows
    )


def test_orders_that_could_not_be_forgotten_are_not_carried_out_twice() -> None:
    run = loop(gaining())
    run.until_phase(Phase.MEASURING)
    run.wish(Verb.ABORT)
    _all_but_events(run, plan(run.seen()))
    run.away(10.0)
    run.until_ended()
    assert run.outcome() == "Aborted(User)" and not run.wishes
    run.steps(20)
    assert run.experiments["chat-00002"].status.outcome is None


def test_an_experiment_that_was_written_and_never_named_is_taken_over() -> None:
    run = loop(gaining())
    decided = plan(run.seen())
    assert decided.experiment is not None
    _experiment_only(run, decided)
    run.away(300.0)
    run.until_ended()
    assert next(iter(run.experiments)) == "chat-00001" and run.outcome() == "Promoted(Superior)"


def test_an_experiment_that_is_not_in_the_store_any_more_keeps_the_incumbent() -> None:
    run = loop(gaining())
    run.until_phase(Phase.MEASURING)
    lost = run.experiments.pop("chat-00001")
    run.step()
    assert "chat-00001 is not in the store any more" in run.told(Reason.SUPERSEDED)[0]
    assert not run.exposed() and run.all_run(START)
    assert not run.refusals, "agents held this generation with another body"
    assert lost.status.outcome is None
    run.until_ended(1)
    assert run.outcome() == "Promoted(Superior)" and run.experiment.spec.number == 2


def test_the_push_generation_goes_on_from_what_agents_report() -> None:
    run = loop(gaining())
    run.until_phase(Phase.MEASURING)
    for agent in run.pool.agents.values():
        agent.generation += 40
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert all(push.generation > 40 for now, _, push in run.pool.log[-6:])


def _block(run: Loop) -> tuple[int, int]:
    epoch = run.experiment.status.epoch
    assert epoch is not None
    return (epoch.block, epoch.epoch) if epoch.kind is BlockKind.TEST else (-1, 0)
