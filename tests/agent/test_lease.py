"""The dead-man's switch on a fake clock: nobody but the agent itself acts."""

import asyncio
from contextlib import suppress
from pathlib import Path

from kvtune_agent.lease import BEAT_SECONDS, keep_beating
from kvtune_api.wire import Role, Running
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import BETTER, START, new_agent, push


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_candidate_that_is_not_renewed_returns_to_the_incumbent_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    agent = new_agent(tmp_path, clock)
    heart = asyncio.create_task(keep_beating(agent, clock))
    await agent.push(push(leaseSeconds=3))
    assert agent.held.config == BETTER

    await _settle()
    clock.advance(3 + BEAT_SECONDS)
    await _settle()

    assert agent.held.config == START
    assert agent.held.lease_lapses == 1
    heart.cancel()
    with suppress(asyncio.CancelledError):
        await heart


async def test_a_renewed_candidate_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    agent = new_agent(tmp_path, clock)
    await agent.push(push(leaseSeconds=3))
    for _ in range(4):
        clock.advance(2)
        agent.beat()
        told = await agent.push(push(leaseSeconds=3))
        assert isinstance(told, Running)
        assert (told.role, told.lease_remaining_seconds) == (Role.CANDIDATE, 3)

    assert agent.held.lease_lapses == 0


async def test_leases_count_wall_seconds_however_fast_the_engine_s_clock_runs(tmp_path: Path) -> None:
    clock = FakeClock(speed=60)
    agent = new_agent(tmp_path, clock)
    await agent.push(push(leaseSeconds=3))

    clock.advance(2.9)
    agent.beat()
    assert agent.held.config == BETTER
    clock.advance(0.1)
    agent.beat()

    assert agent.held.config == START


async def test_what_is_told_is_true_between_two_beats(tmp_path: Path) -> None:
    clock = FakeClock()
    agent = new_agent(tmp_path, clock)
    await agent.push(push(leaseSeconds=3))

    clock.advance(3)

    assert agent.running().role is Role.INCUMBENT
    assert agent.report().running.lease_lapses == 1


async def test_a_beat_that_fails_does_not_stop_the_next() -> None:
    class Heart:
        beats = 0

        def beat(self) -> None:
            self.beats += 1
            if self.beats == 1:
                raise RuntimeError("once")

    clock, heart = FakeClock(), Heart()
    beating = asyncio.create_task(keep_beating(heart, clock))
    await _settle()
    clock.advance(BEAT_SECONDS)
    await _settle()

    assert heart.beats == 2
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
