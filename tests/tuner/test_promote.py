"""The ramp of a winner over the pool, and the watch that may take it back."""

import pytest

from kvtune_api.names import Phase
from kvtune_api.wire import Role
from kvtune_tuner.promote import promoted_agents
from kvtune_tuner.replay import replay
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import BETTER, START, gaining


def test_the_ramp_takes_the_arms_first_and_then_twice_as_many() -> None:
    run = loop(gaining(), agents=17)
    run.until_phase(Phase.PROMOTING)
    sizes = []
    while run.phase is Phase.PROMOTING:
        sizes.append(len(run.exposed()))
        run.step()
    assert sizes[0] == 15 and len(run.exposed()) == 16
    assert not run.refusals


def test_a_winner_that_an_agent_does_not_take_is_taken_back_at_the_deadline() -> None:
    run = loop(gaining(), agents=7)
    run.until_phase(Phase.WASHOUT)
    arms = {name for pair in run.experiment.spec.pairs for name in (pair.first, pair.second)}
    (stubborn,) = set(run.pool.names()) - arms
    run.pool.agents[stubborn].shrug = True
    run.until_phase(Phase.PROMOTING)
    deadline = run.experiment.status.deadline
    run.until_ended()
    assert run.outcome() == "RolledBack(PromotionFailed)"
    assert stubborn in run.experiment.status.message
    assert run.now <= deadline + 10 * run.tick
    assert run.status.incumbent == START and not run.exposed()


def test_a_control_plane_that_was_away_for_the_whole_ramp_does_not_count_against_the_winner() -> None:
    run = experimenting(Phase.PROMOTING)
    run.away(3600.0)
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.all_run(START)


def test_a_dead_node_outside_the_arms_does_not_stop_a_promotion() -> None:
    run = loop(gaining(), agents=8)
    dead = run.pool.names()[-1]
    run.pool.agents[dead].down = True
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    run.pool.agents[dead].down = False
    run.steps(2)
    assert run.running()[dead] in ((Role.INCUMBENT, BETTER), (Role.CANDIDATE, run.experiment.spec.candidate))


def test_a_promotion_that_turns_out_badly_is_reverted_by_the_watch() -> None:
    run = experimenting(Phase.WATCHING)
    run.pool.set_surface(run.now, gaining(-0.2))
    run.until_ended()
    assert run.outcome() == "RolledBack(Watch)"
    assert run.all_run(START) and run.status.incumbent == START and run.status.promoted is None
    assert replay(run.experiment).differences == ()


def test_a_watch_without_any_figures_keeps_the_incumbent() -> None:
    run = experimenting(Phase.WATCHING)
    run.pool.set_traffic(run.now, request_rate=0.0)
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.status.incumbent == START and run.all_run(START)


@pytest.mark.parametrize("how", ["restart", "away"])
def test_the_watch_does_not_judge_what_the_winner_did_not_serve(how: str) -> None:
    run = experimenting(Phase.WATCHING)
    run.until(lambda: _windows(run)[0][0] <= run.now)
    before, deadline = _windows(run), run.experiment.status.deadline
    watch = run.experiment.status.watch
    assert watch is not None
    if how == "restart":
        run.pool.restart(watch.partner, run.now)
        run.now += run.tick
    else:
        run.away(45.0)
        assert not run.exposed(), "leases have ended"
    run.step()
    assert _windows(run)[0][0] > before[0][0], "the window begins again after another washout"
    assert run.experiment.status.deadline == deadline, "but not for ever"
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert run.all_run(BETTER)


def test_an_agent_that_joins_during_the_ramp_gets_in_nobodys_way() -> None:
    run = loop(gaining(), agents=17)
    run.until_phase(Phase.PROMOTING)
    run.pool.join("http://127.0.0.1:8000", config=START, now=run.now - 300)
    run.until_ended(limit=200)
    assert run.outcome() == "Promoted(Superior)"
    assert not run.refusals
    run.step()
    assert run.running()["http://127.0.0.1:8000"][1] in (BETTER, run.experiment.spec.candidate)


def test_an_agent_that_joins_during_the_watch_gets_in_nobodys_way() -> None:
    run = loop(gaining(), agents=7)
    run.until_phase(Phase.WATCHING)
    run.pool.join("http://127.0.0.1:8000", config=START, now=run.now - 300)
    run.until_ended(limit=200)
    assert run.outcome() == "Promoted(Superior)"
    assert not run.refusals


def test_a_holdback_that_leaves_ends_the_watch_without_a_promotion() -> None:
    run = experimenting(Phase.WATCHING)
    watch = run.experiment.status.watch
    assert watch is not None
    run.pool.leave(watch.holdback)
    run.until_ended(limit=200)
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.all_run(START)


def test_the_holdback_is_never_among_the_promoted() -> None:
    run = experimenting(Phase.WATCHING)
    watch = run.experiment.status.watch
    assert watch is not None
    names = (*run.pool.names(), "http://127.0.0.1:8000")
    found = promoted_agents(run.experiment, names)
    assert watch.holdback not in found and watch.partner in found


def test_the_pairs_own_difference_is_that_of_the_two_agents_not_of_the_arms() -> None:
    run = experimenting(Phase.WATCHING)
    watch = run.experiment.status.watch
    assert watch is not None
    life = {name: run.pool.agents[name].life for name in (watch.partner, watch.holdback)}
    own = life[watch.partner].offset - life[watch.holdback].offset
    assert watch.pair_difference == pytest.approx(own, abs=0.02)


def _windows(run: Loop) -> tuple[tuple[float, float], ...]:
    watch = run.experiment.status.watch
    assert watch is not None
    return watch.windows
