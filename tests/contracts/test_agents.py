"""What every way to reach agents must do: ports `Agents` and `Metrics`, simulated, over HTTP, and as pods."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.wire import Counters, Report, Role
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_tuner.model import PoolSeen
from kvtune_tuner.sli import Missing, MissingReason
from tests.contracts.worlds import DEAD, WORLDS, World, url
from tests.fakes.samples import cache_config, incumbent_push, push


def asked(config: CacheConfig) -> CacheConfig:
    """What these tests ask for of what an agent runs: it may add an eviction policy and a threshold."""
    return replace(config, eviction_policy=None, store_threshold=None)


@pytest.fixture(params=list(WORLDS))
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with WORLDS[request.param](tmp_path, request) as made:
        yield made


async def report_of(world: World, name: str) -> Report:
    report = (await world.agents.reports([name]))[name]
    assert isinstance(report, Report), report
    return report


async def newest_of(world: World, names: Sequence[str]) -> Mapping[str, Counters | Missing]:
    return await world.metrics.newest(await world.agents.reports(names))


async def test_the_agents_that_a_policy_selects_are_found_sorted(world: World) -> None:
    found = await world.agents.discover(world.selecting)

    assert found.agents == tuple(sorted(world.names))
    assert found.pool == PoolSeen()


async def test_agents_that_are_asked_for_are_found_beside_those_selected(world: World) -> None:
    found = await world.agents.discover(world.selecting, also=world.names)

    assert found.agents == tuple(sorted(world.names))


async def test_every_agent_reports_what_it_runs_and_can_change(world: World) -> None:
    reports = await world.agents.reports(world.names)

    assert set(reports) == set(world.names)
    for name in world.names:
        report = await report_of(world, name)
        assert report.running.role is Role.INCUMBENT
        assert asked(report.running.config) == cache_config()
        assert all(support.live for support in report.supports)
        assert {support.knob for support in report.supports} == set(Knob)
        assert report.counters is not None


async def test_a_dead_agent_is_unreachable_and_hides_no_other(world: World) -> None:
    first, _ = world.names

    reports = await world.agents.reports([first, world.dead])
    answers = await world.agents.push({first: push(), world.dead: push()})

    assert isinstance(reports[first], Report)
    assert answers[first] == Accepted()
    for dead in (reports[world.dead], answers[world.dead]):
        assert isinstance(dead, Unreachable)
        assert url(DEAD) in dead.message


async def test_a_candidate_is_taken_and_reported_under_its_lease(world: World) -> None:
    first, second = world.names

    answers = await world.agents.push({first: push()})

    assert answers == {first: Accepted()}
    running = (await report_of(world, first)).running
    assert (running.role, asked(running.config)) == (Role.CANDIDATE, cache_config(ttl=120))
    assert asked(running.incumbent) == cache_config()
    assert running.lease_remaining_seconds is not None
    assert 0 < running.lease_remaining_seconds <= 30
    assert (await report_of(world, second)).running.role is Role.INCUMBENT


async def test_a_lease_that_is_not_renewed_ends_in_the_incumbent(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push()})

    world.advance(31.0)

    running = (await report_of(world, first)).running
    assert (running.role, asked(running.config)) == (Role.INCUMBENT, cache_config())
    assert running.lease_lapses == 1


async def test_a_lease_that_is_renewed_by_the_same_push_goes_on(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push()})
    world.advance(20.0)

    again = await world.agents.push({first: push()})
    world.advance(20.0)

    assert again == {first: Accepted()}
    assert (await report_of(world, first)).running.role is Role.CANDIDATE


async def test_an_incumbent_push_ends_the_candidate(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push(1)})

    await world.agents.push({first: incumbent_push(2, ttl=60)})

    running = (await report_of(world, first)).running
    assert (running.role, asked(running.config)) == (Role.INCUMBENT, cache_config(ttl=60))


@pytest.mark.parametrize(
    ("stale", "reason"),
    [
        (push(9, token=4), "StaleToken"),
        (push(2, token=5), "StaleGeneration"),
        (push(3, token=5, ttl=240), "GenerationReused"),
        (push(1, token=5, uid="other"), "Leased"),
    ],
)
async def test_a_stale_push_is_refused_with_its_reason(world: World, stale: object, reason: str) -> None:
    first, _ = world.names
    await world.agents.push({first: push(3)})

    answer = (await world.agents.push({first: stale}))[first]  # type: ignore[dict-item]  # parametrized

    assert isinstance(answer, Refused)
    assert (answer.status, answer.reason) == (409, reason)
    assert asked((await report_of(world, first)).running.config) == cache_config(ttl=120)


async def test_a_newer_token_is_taken_with_any_generation(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push(9)})

    assert await world.agents.push({first: push(1, token=6, ttl=60)}) == {first: Accepted()}
    assert (await report_of(world, first)).running.token == 6


async def test_no_pushes_are_no_error(world: World) -> None:
    assert await world.agents.push({}) == {}


async def test_an_agent_is_asked_to_restore_its_policy_and_a_dead_one_hides_no_other(world: World) -> None:
    first, _ = world.names

    answers = await world.agents.restore([first, world.dead])

    assert answers[first] == Accepted()
    assert isinstance(answers[world.dead], Unreachable)
    assert await world.agents.restore([]) == {}


async def test_the_newest_counters_are_of_a_grid_time_that_has_passed(world: World) -> None:
    newest = await newest_of(world, world.names)

    for name in world.names:
        counters = newest[name]
        assert isinstance(counters, Counters), counters
        assert counters.at % 5 == 0
        assert world.now() - 10 < counters.at <= world.now()
        assert counters.requests
        assert counters.prompt_tokens
        assert counters.hit_tokens is not None
        assert counters.ttft is not None
        assert counters.ttft.counts[-1] == pytest.approx(counters.requests)


async def test_counters_of_a_past_grid_time_are_what_they_were(world: World) -> None:
    newest = await newest_of(world, world.names)
    first = newest[world.names[0]]
    assert isinstance(first, Counters)
    world.advance(8.0)

    again = await world.metrics.counters_at(world.names, first.at)

    assert again == newest


async def test_counters_grow(world: World) -> None:
    first, _ = world.names
    newest = (await newest_of(world, [first]))[first]
    assert isinstance(newest, Counters)

    earlier = (await world.metrics.counters_at([first], newest.at - 5))[first]

    assert isinstance(earlier, Counters)
    assert (earlier.requests or 0) < (newest.requests or 0)


async def test_counters_of_the_future_are_missing(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5 + 5) * 5))[first]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


async def test_counters_from_before_the_agents_start_are_a_missed_bound(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5) * 5 - 100_000))[first]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.BOUND_MISSED


async def test_counters_of_a_dead_agent_are_missing_and_hide_no_other(world: World) -> None:
    first, _ = world.names

    for found in (
        await newest_of(world, [first, world.dead]),
        await world.metrics.counters_at([first, world.dead], world.now() // 5 * 5 - 5),
    ):
        assert isinstance(found[first], Counters)
        dead = found[world.dead]
        assert isinstance(dead, Missing)
        assert dead.reason is MissingReason.UNREACHABLE
