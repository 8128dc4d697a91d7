"""One agent: pushes, disk failures, restarts."""

from pathlib import Path

import pytest

from kvtune_agent.agent import open_agent
from kvtune_agent.apply import Refused
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.exits import StateUnavailable
from kvtune_api.errors import Corrupt, SpecError
from kvtune_api.knobs import CacheConfig
from kvtune_api.wire import Role, Running
from kvtune_cache.constants import H100_LLAMA8B
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import BETTER, START, cache_config, new_agent, push, settings


async def test_a_pushed_incumbent_and_the_fence_survive_a_restart(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    await agent.push(push(role="incumbent", token=7, generation=3))
    agent.close()

    again = new_agent(tmp_path, FakeClock())

    told = again.running()
    assert (told.role, told.config, told.incumbent) == (Role.INCUMBENT, BETTER, BETTER)
    assert (told.token, told.generation, told.policy_uid) == (7, 3, "p1")
    stale = await again.push(push(token=6, generation=99))
    assert isinstance(stale, Refused)
    assert stale.reason == "StaleToken"


async def test_a_candidate_does_not_survive_a_restart_but_its_fence_does(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    await agent.push(push(generation=4))
    agent.close()

    again = new_agent(tmp_path, FakeClock())

    assert again.running().config == START
    stale = await again.push(push(generation=3))
    assert isinstance(stale, Refused)
    repeated = await again.push(push(generation=4))
    assert isinstance(repeated, Running)
    assert repeated.role is Role.CANDIDATE


async def test_a_renewal_writes_nothing(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    await agent.push(push())
    file = tmp_path / "state" / "incumbent.json"
    before = file.stat().st_ino

    await agent.push(push())

    assert file.stat().st_ino == before


async def test_a_push_that_cannot_be_kept_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    (tmp_path / "state" / "incumbent.json.tmp").mkdir()

    for one in (push(), push(role="incumbent")):
        refused = await agent.push(one)
        assert isinstance(refused, Refused)
        assert (refused.status, refused.reason) == (503, "StateUnavailable")

    assert agent.running().generation == 0
    assert agent.running().config == START


async def test_a_return_to_the_incumbent_does_not_wait_for_a_broken_disk(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    await agent.push(push())
    (tmp_path / "state" / "incumbent.json.tmp").mkdir()

    told = await agent.push(
        push(
            role="incumbent",
            generation=2,
            config={"cacheTTL": "30s", "evictionRatio": 0.3, "tiers": {"hostMemory": "57Gi"}},
        )
    )

    assert isinstance(told, Running)
    assert (told.role, told.config, told.generation) == (Role.INCUMBENT, START, 2)


async def test_a_value_that_the_engine_cannot_run_is_refused_and_the_fence_stays(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())

    refused = await agent.push(push(token=9, config={"tiers": {"hostMemory": "1Mi"}}))

    assert isinstance(refused, Refused)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "less than one block" in refused.message
    assert agent.running().token == 0


async def test_the_engine_runs_what_is_in_force(tmp_path: Path) -> None:
    clock = FakeClock()
    agent = new_agent(tmp_path, clock)
    assert isinstance(agent.engine, ReplayEngine)
    ttls = []
    for step in (push(leaseSeconds=3), None):
        if step is not None:
            await agent.push(step)
        ttls.append(agent.engine.settings.ttl_seconds)
        clock.advance(3)
        agent.beat()

    assert ttls == [120, 30]


def test_a_start_refuses_a_corrupt_file_and_gives_the_directory_back(tmp_path: Path) -> None:
    new_agent(tmp_path, FakeClock()).close()
    file = tmp_path / "state" / "incumbent.json"
    file.write_text("{\n  broken")

    with pytest.raises(Corrupt, match=r"incumbent.json line 2"):
        new_agent(tmp_path, FakeClock())
    file.unlink()

    new_agent(tmp_path, FakeClock()).close()


async def test_a_start_refuses_an_incumbent_that_the_engine_can_no_longer_run(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock(), preset="cpu-tiny")
    await agent.push(push(role="incumbent", config={"tiers": {"hostMemory": "8Mi"}}))
    agent.close()

    with pytest.raises(Corrupt, match=r"cannot run this incumbent: .*8388608 bytes is less than one block"):
        new_agent(tmp_path, FakeClock())


def test_an_unknown_preset_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"preset: 'a100' is not one of cpu-tiny, h100-llama8b"):
        new_agent(tmp_path, FakeClock(), preset="a100")


def test_a_start_configuration_below_a_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"config.tiers.hostMemory"):
        new_agent(tmp_path, FakeClock(), config=cache_config(host="1Mi"))


def test_two_agents_cannot_share_a_state_directory(tmp_path: Path) -> None:
    new_agent(tmp_path, FakeClock())

    with pytest.raises(StateUnavailable, match="another running agent"):
        open_agent(settings(tmp_path), FakeClock())


async def test_what_the_engine_fails_to_run_is_not_held(tmp_path: Path) -> None:
    class Failing(ReplayEngine):
        def apply(self, config: CacheConfig) -> None:
            raise ZeroDivisionError("broken")

    agent = new_agent(tmp_path, FakeClock())
    agent.engine = Failing(H100_LLAMA8B, START, FakeClock(), keep_seconds=4200.0)

    with pytest.raises(ZeroDivisionError, match="broken"):
        await agent.push(push())

    assert agent.running().config == START
