"""The space never offers what the policy forbids."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, Tiers, number_of, point
from kvtune_api.policy import PolicySpec
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange, RatioRange
from kvtune_api.units import Duration, Quantity
from kvtune_tuner.box import Box, grid, step_box
from kvtune_tuner.space import NoStart, Space, live_knobs, space_of, start
from tests.tuner.proposal_cases import CHOICES, GIB, knobs_of, made, policies, policy, report

ALL = frozenset(Knob)


def _start(spec: PolicySpec, *reported: CacheConfig) -> CacheConfig | NoStart:
    return start(spec, space_of(spec, ALL), reported)


def _chat_box(incumbent: CacheConfig, factor: float | None = None) -> Box:
    return step_box(space_of(policy(), ALL), incumbent, factor)


def test_only_knobs_that_every_agent_changes_live_are_axes() -> None:
    ttl_only = report("b", live=[Knob.CACHE_TTL])
    space = space_of(policy(), live_knobs([report("a"), ttl_only]))
    assert space.knobs == (Knob.CACHE_TTL,)
    assert space.left_out == (Knob.EVICTION_RATIO, Knob.HOST_MEMORY)


def test_without_agents_no_knob_is_live() -> None:
    assert live_knobs([]) == frozenset()
    assert "no knob" in str(space_of(policy(), frozenset()).problem(made()))


def test_the_digest_names_the_space() -> None:
    space = space_of(policy(), ALL)
    assert space.digest == space_of(policy(), ALL).digest
    assert space.digest != space_of(policy(knobs_of(step=2)), ALL).digest
    assert len(space.digest) == 16


def test_start_is_what_the_policy_says_before_what_agents_report() -> None:
    assert _start(policy(), made(60, 0.1, 100)) == made(30, 0.3, 57)


def test_start_is_what_agents_report_as_they_write_it() -> None:
    spec = policy(Knobs(cache_ttl=DurationRange(min=Duration("30s"), max=Duration("2h"))))
    assert _start(spec, made(3600), made(3600)) == CacheConfig(cache_ttl=Duration("3600s"))
    hour = CacheConfig(cache_ttl=Duration("1h"))
    assert _start(spec, hour, made(3600)) == hour


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        ((), "0 of 0 agents"),
        ((made(40), made(None)), "1 of 2 agents report a value"),
        ((made(40), made(50)), "different values, 40s to 50s"),
        ((made(10), made(10)), "agents report 10s, outside 30s to 600s"),
    ],
)
def test_start_says_what_is_wrong_with_what_agents_report(
    reported: tuple[CacheConfig, ...], said: str
) -> None:
    ttl = DurationRange(min=Duration("30s"), max=Duration("600s"))
    spec = policy(Knobs(cache_ttl=ttl, eviction_ratio=RatioRange(min=0.1, max=0.2)))
    found = _start(spec, *reported)
    assert isinstance(found, NoStart)
    assert len(found.problems) == 2
    assert found.message.startswith("spec.knobs.cacheTTL.start: is required")
    assert said in found.message


def test_a_box_reaches_one_step_or_the_bound() -> None:
    sides = {side.knob: (side.low, side.high) for side in _chat_box(made(60, 0.2, 100)).sides}
    assert sides == {
        Knob.CACHE_TTL: (30, 240),
        Knob.EVICTION_RATIO: (0.05, 0.3),
        Knob.HOST_MEMORY: (25 * GIB, 400 * GIB),
    }


def test_a_factor_makes_the_box_smaller_and_never_larger() -> None:
    small = _chat_box(made(100, 0.2, 100), factor=2).sides[0]
    assert (small.low, small.high) == (50, 200)
    assert _chat_box(made(100, 0.2, 100), factor=50) == _chat_box(made(100, 0.2, 100))


def test_a_box_around_an_incumbent_out_of_bounds_is_refused_with_value_and_bounds() -> None:
    with pytest.raises(ValueError, match="cacheTTL: the incumbent's 20s is outside 30s to 600s"):
        _chat_box(made(20))
    with pytest.raises(ValueError, match="evictionRatio: the incumbent has no value"):
        _chat_box(made(30, None))


def test_knobs_outside_the_space_and_unmoved_ones_stay_as_written() -> None:
    incumbent = CacheConfig(cache_ttl=Duration("1m"), tiers=Tiers(host_memory=Quantity("1e9")))
    spec = policy(knobs_of(only=[Knob.CACHE_TTL]))
    box = step_box(space_of(spec, ALL), incumbent)
    assert box.config({Knob.CACHE_TTL: 60}) == incumbent
    assert box.config({Knob.CACHE_TTL: 1e9}) == replace(incumbent, cache_ttl=Duration("240s"))
    assert box.holds(incumbent)
    assert not box.holds(made(60, None, 57))


def test_bounds_between_two_points_of_the_grid_leave_the_incumbent() -> None:
    spec = policy(Knobs(eviction_ratio=RatioRange(min=0.1001, max=0.1009)))
    box = step_box(space_of(spec, ALL), CacheConfig(eviction_ratio=0.1005))
    assert not box.sides[0].movable
    assert grid(box) == ({Knob.EVICTION_RATIO: 0.1005},)
    assert box.config({Knob.EVICTION_RATIO: 0.3}) == CacheConfig(eviction_ratio=0.1005)


def test_a_grid_is_log_spaced_and_has_the_incumbent() -> None:
    points = grid(_chat_box(made(100, 0.12, 100)))
    assert len(points) == 9**3
    assert {Knob.CACHE_TTL: 100, Knob.EVICTION_RATIO: 0.12, Knob.HOST_MEMORY: 100 * GIB} in points
    ttls = sorted({p[Knob.CACHE_TTL] for p in points})
    assert ttls[0] == 30
    assert ttls[-1] == 400
    steps = [math.log(b / a) for a, b in pairwise(ttls)]
    assert max(steps) < 2 * min(steps)


def _check_inside(space: Space, incumbent: CacheConfig, config: CacheConfig, factor: float) -> None:
    values, was = point(config), point(incumbent)
    assert space.inside(values)
    for axis in (axis for axis in space.axes if not axis.choices):
        step = max(values[axis.knob] / was[axis.knob], was[axis.knob] / values[axis.knob])
        assert step <= min(axis.largest_step, factor) * (1 + 1e-9)


@given(policies(), st.lists(st.floats(1e-6, 1e15), min_size=5, max_size=5), st.sampled_from([None, 1.5, 2.0]))
def test_no_point_of_a_box_leaves_bounds_or_steps(
    drawn: tuple[PolicySpec, CacheConfig], wild: list[float], factor: float | None
) -> None:
    spec, incumbent = drawn
    space = space_of(spec, ALL)
    box = step_box(space, incumbent, factor)
    wanted = [dict(zip(Knob, wild, strict=True)), {}, *grid(box, levels=2)]
    for one in wanted:
        config = box.config(one)
        assert box.holds(config)
        assert box.config(point(config)) == config
        _check_inside(space, incumbent, config, factor if factor is not None else math.inf)


def test_of_names_every_choice_is_one_step_away_and_none_is_near_another() -> None:
    spec = policy(knobs_of(only=[Knob.EVICTION_POLICY]))
    box = step_box(space_of(spec, ALL), CacheConfig(eviction_policy=EvictionPolicy.ARC), 1.5)

    assert [config.eviction_policy for config in map(box.config, grid(box))] == list(CHOICES)
    assert box.holds(CacheConfig(eviction_policy=EvictionPolicy.LRU))
    assert not box.holds(CacheConfig(eviction_policy=EvictionPolicy.FIFO))
    assert box.config({Knob.EVICTION_POLICY: number_of(EvictionPolicy.FIFO)}) == box.incumbent


def test_a_threshold_moves_by_whole_numbers_within_its_largest_step() -> None:
    spec = policy(knobs_of(only=[Knob.STORE_THRESHOLD]))
    box = step_box(space_of(spec, ALL), CacheConfig(store_threshold=2))

    assert sorted({p[Knob.STORE_THRESHOLD] for p in grid(box)}) == [1, 2, 3, 4]


def test_agents_that_run_different_policies_are_no_start_and_the_choices_are_named() -> None:
    spec = policy(knobs_of(only=[Knob.EVICTION_POLICY]))
    lru, fifo = (CacheConfig(eviction_policy=p) for p in (EvictionPolicy.LRU, EvictionPolicy.FIFO))

    assert _start(spec, lru, lru) == lru
    assert "agents report different values, LRU and FIFO" in str(_start(spec, lru, fifo))
    assert "agents report FIFO, outside LRU, ReuseAware, ARC" in str(_start(spec, fifo, fifo))
    assert "the incumbent's FIFO is outside LRU, ReuseAware, ARC" in str(space_of(spec, ALL).problem(fifo))
