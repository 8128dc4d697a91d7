"""What each agent is told to run: level-triggered, inside the bounds, and no more often than needed."""

from dataclasses import replace

import pytest

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode, Strategy
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange, RatioRange
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_api.wire import Role
from tests.fakes.responses import flat
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import BETTER, START, gaining, spec

TWO = Knobs(
    cache_ttl=DurationRange(min=Duration("30s"), max=Duration("600s"), start=Duration("60s"), largest_step=4),
    eviction_ratio=RatioRange(min=0.05, max=0.3, start=0.2, largest_step=2),
)
BOTH = CacheConfig(cache_ttl=Duration("60s"), eviction_ratio=0.2)


def resting(knobs: Knobs, config: CacheConfig) -> Loop:
    """A loop whose policy is paused, so that only convergence happens."""
    run = loop(flat(), spec=replace(spec(), knobs=knobs, paused=True), config=config)
    run.steps(3)
    return run


def test_agents_that_run_the_incumbent_are_left_alone() -> None:
    run = resting(spec().knobs, START)
    run.steps(20)
    assert not run.pool.log
    assert run.condition(ConditionType.CONVERGED).status is Truth.TRUE


def test_an_agent_that_lost_its_incumbent_is_given_it_again() -> None:
    run = resting(spec().knobs, START)
    name = run.pool.names()[0]
    agent = run.pool.agents[name]
    agent.config = agent.incumbent = replace(START, cache_ttl=Duration("500s"))
    run.step()
    assert run.condition(ConditionType.CONVERGED).reason is Reason.OUT_OF_SYNC
    run.step()
    assert run.all_run(START)


def test_a_lease_is_renewed_in_time_and_not_with_every_tick() -> None:
    run = loop(gaining(), tick=5.0)
    run.until_phase(Phase.MEASURING)
    pushed = len(run.pool.log)
    for _ in range(8):
        run.step()
        assert len(run.exposed()) == 3
    assert len(run.pool.log) - pushed <= 3 * 5


@pytest.mark.parametrize(
    ("tick", "speed", "least"), [(5.0, 1.0, 30.0), (60.0, 1.0, 180.0), (10.0, 60.0, 30.0)]
)
def test_a_lease_lasts_at_least_three_ticks(tick: float, speed: float, least: float) -> None:
    run = loop(gaining(), tick=tick)
    run.pool.settings = replace(run.pool.settings, speed=speed)
    run.until_phase(Phase.WASHOUT)
    leases = {push.lease_seconds for _, _, push in run.pool.log if push.role is Role.CANDIDATE}
    assert leases == {least}


def test_a_new_token_renews_candidates_at_once() -> None:
    run = experimenting(Phase.MEASURING)
    run.token += 1
    run.step()
    assert {run.pool.agents[name].token for name in run.exposed()} == {run.token}


def test_observe_tells_nobody_anything() -> None:
    other = replace(START, cache_ttl=Duration("90s"))
    run = loop(flat(), spec=spec(Mode.OBSERVE), config=other)
    run.steps(5)
    assert not run.pool.log


def test_switching_to_observe_during_an_experiment_restores_the_incumbent_first() -> None:
    run = experimenting(Phase.MEASURING)
    run.edit(spec(Mode.OBSERVE))
    run.steps(3)
    assert run.outcome() == "Aborted(Superseded)"
    assert run.all_run(START)


def test_an_agent_without_a_knob_runs_the_rest_of_the_incumbent() -> None:
    run = resting(TWO, BOTH)
    assert run.status.incumbent == BOTH
    lacking = "http://127.0.0.1:9050"
    agent = run.pool.join(lacking, config=CacheConfig(cache_ttl=Duration("100s")), now=run.now - 600)
    agent.unsupported = frozenset({Knob.EVICTION_RATIO})
    run.steps(3)
    assert not run.refusals, "it is not told what it does not know"
    assert agent.config == START
    assert run.status.incumbent == BOTH, "the others keep the knob"
    assert run.condition(ConditionType.CONVERGED).status is Truth.TRUE


def test_an_experiment_goes_on_without_the_knob_that_one_agent_lacks() -> None:
    run = loop(gaining(), spec=replace(spec(), knobs=TWO), config=BOTH, agents=6)
    lacking = run.pool.agents[run.pool.names()[0]]
    lacking.unsupported = frozenset({Knob.EVICTION_RATIO})
    lacking.config = lacking.incumbent = START
    run.step()
    assert run.condition(ConditionType.AGENTS_READY).reason is Reason.KNOB_UNSUPPORTED
    assert run.experiments, "the other knob is tuned"
    assert Knob.EVICTION_RATIO not in point(run.experiment.spec.candidate)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)" and not run.refusals


def test_an_agent_that_is_away_for_a_moment_does_not_change_the_incumbent() -> None:
    run = loop(gaining(), spec=replace(spec(), knobs=TWO, strategy=Strategy.LADDER), config=BOTH)
    lacking = run.pool.agents[run.pool.names()[0]]
    lacking.unsupported = frozenset({Knob.EVICTION_RATIO})
    run.until_ended()
    assert run.status.incumbent == BETTER
    lacking.down = True
    run.wishes.clear()
    run.edit(replace(run.policy.spec, paused=True))
    run.steps(10)
    assert run.status.incumbent == BETTER, "what was promoted is not forgotten"


def test_an_edit_of_the_bounds_moves_only_the_knob_that_is_outside() -> None:
    run = resting(TWO, BOTH)
    narrow = replace(
        TWO, cache_ttl=DurationRange(min=Duration("100s"), max=Duration("600s"), start=Duration("120s"))
    )
    run.edit(replace(run.policy.spec, knobs=narrow))
    run.steps(3)
    wanted = CacheConfig(cache_ttl=Duration("120s"), eviction_ratio=0.2)
    assert run.status.incumbent == wanted and run.all_run(wanted)


def test_without_a_start_agents_that_differ_are_named_and_nothing_is_pushed() -> None:
    knobs = Knobs(cache_ttl=DurationRange(min=Duration("30s"), max=Duration("600s")))
    run = loop(flat(), spec=replace(spec(), knobs=knobs))
    odd = run.pool.agents[run.pool.names()[0]]
    odd.config = odd.incumbent = BETTER
    run.steps(3)
    assert "agents report different values, 60s to 240s" in run.status.waiting_for
    assert not run.pool.log and run.status.incumbent is None
    assert run.condition(ConditionType.EXPERIMENTING).reason is Reason.MIXED_CONFIGS
    odd.config = odd.incumbent = START
    run.steps(2)
    assert run.status.incumbent == START


def test_every_push_lies_inside_the_bounds_and_one_step_of_the_incumbent() -> None:
    run = loop(flat(), spec=replace(spec(), knobs=TWO), config=BOTH)
    run.until_ended(2, limit=1200)
    assert len(run.pool.log) > 20
    for _, _, push in run.pool.log:
        values = point(push.config)
        assert 30 <= values[Knob.CACHE_TTL] <= 600 and 0.05 <= values[Knob.EVICTION_RATIO] <= 0.3
        assert 15 <= values[Knob.CACHE_TTL] <= 240
