"""A candidate that kills its engine, and agents whose clocks are wrong: neither may blind the breaker."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from kvtune_api.names import Phase, Reason
from kvtune_api.wire import Counters, Role
from kvtune_tuner.sli import Missing
from tests.fakes.pool import Pool
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import START, gaining


class AheadPool(Pool):
    """A pool in which one agent says that its newest sample is of a later time than it is."""

    def __init__(self, pool: Pool, name: str, seconds: float) -> None:
        self.__dict__.update(pool.__dict__)
        self._odd, self._ahead = name, seconds

    def newest(self, name: str, now: float) -> Counters | Missing:
        """The newest counters, the odd agent's with a moment that is to come."""
        found = super().newest(name, now)
        if name != self._odd or isinstance(found, Missing):
            return found
        return replace(found, at=found.at + self._ahead)


def _crashing(run: Loop, dies: Callable[[str, Role], bool], ticks: int = 1500) -> Loop:
    """Step until the experiment ends; after each step engines may die and be back at once."""
    for _ in range(ticks):
        run.step()
        for name, (role, _) in run.running().items():
            if dies(name, role):
                run.pool.restart(name, run.now)
        if run.status.trials and not run.status.experiment:
            return run
    raise AssertionError("the experiment did not end")


@pytest.mark.parametrize("chance", [0.05, 0.08, 0.3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_better_candidate_that_kills_its_engine_is_rolled_back(chance: float, seed: int) -> None:
    dice = random.Random(seed)
    run = _crashing(
        loop(gaining(0.06), seed=seed), lambda _, role: role is Role.CANDIDATE and dice.random() < chance
    )
    record = run.experiment.status
    assert run.outcome() == "RolledBack(Breaker)"
    assert record.breach is not None and record.breach.check == "restarts"
    assert record.restarts_candidate >= record.restarts_control + 3
    assert f"{record.restarts_candidate} times in the candidate arm" in record.message
    assert f"{record.restarts_control} times in the control arm" in record.message
    assert run.all_run(START)


def test_engines_that_die_in_both_arms_alike_are_not_held_against_the_candidate() -> None:
    run = experimenting(Phase.MEASURING, gaining(0.06))
    for _ in range(4):
        for name in run.pool.names():
            run.pool.restart(name, run.now)
        run.steps(2)
    record = run.experiment.status
    assert (record.restarts_candidate, record.restarts_control) == (12, 12)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_a_rolling_upgrade_that_begins_with_the_candidates_trips_nothing() -> None:
    run = experimenting(Phase.MEASURING)
    for name in sorted(run.exposed()):
        run.pool.restart(name, run.now)
        run.step()
    run.step()
    assert (run.experiment.status.restarts_candidate, run.experiment.status.restarts_control) == (3, 0)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


@pytest.mark.parametrize("phase", [Phase.PROMOTING, Phase.WATCHING])
def test_a_rolling_upgrade_during_a_promotion_trips_nothing(phase: Phase) -> None:
    run = experimenting(phase)
    for name in run.pool.names():
        run.step()
        run.pool.restart(name, run.now)
    run.until_ended()
    assert run.experiment.status.breach is None


def test_a_restart_is_counted_once_however_often_it_is_reported() -> None:
    run = experimenting(Phase.MEASURING)
    control = next(name for name, (role, _) in run.running().items() if role is Role.INCUMBENT)
    run.pool.restart(control, run.now)
    run.steps(5)
    record = run.experiment.status
    assert (record.restarts_candidate, record.restarts_control) == (0, 1)
    assert list(record.restarted) == [control]


def test_a_winner_that_kills_its_engine_while_it_is_watched_is_reverted() -> None:
    run = experimenting(Phase.WATCHING)
    run.step()
    watch = run.experiment.status.watch
    assert watch is not None
    victim = next(name for name in run.pool.names() if name not in (watch.holdback, watch.partner))
    _crashing(run, lambda name, role: name == victim and role is Role.CANDIDATE)
    assert run.outcome() == "RolledBack(Breaker)"
    assert run.experiment.status.restarts_candidate == 3
    assert run.all_run(START)


@pytest.mark.parametrize("index", [0, 5])
@pytest.mark.parametrize("ahead", [10.0, 35.0, 9e11])
def test_one_agent_whose_counters_are_ahead_does_not_blind_the_breaker(ahead: float, index: int) -> None:
    run = loop(gaining(-0.25, -0.6), tick=5.0)
    run.until_phase(Phase.WASHOUT)
    begun, odd = run.now - run.tick, run.pool.names()[index]
    run.pool = AheadPool(run.pool, odd, ahead)
    run.until(lambda: not run.exposed(), limit=20)
    assert run.now - run.tick - begun <= 70
    assert run.outcome() == "RolledBack(Breaker)"
    assert not run.told(Reason.NO_DATA)
