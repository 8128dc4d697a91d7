"""The control plane as one process on real sockets: starts, refusals to start, following its file, ending."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from kvtune_api.codec import dump
from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.clock import WallClock
from kvtune_operator.eventlog import read_events
from kvtune_operator.settings import Settings
from kvtune_operator.standalone import FENCED, STOPPED, run_standalone
from kvtune_operator.statedir import Locked, StateDir, policies, previous_token
from tests.fakes.http_pool import HttpPool, serving
from tests.fakes.pool import Pool
from tests.fakes.samples import cache_config, policy
from tests.fakes.sim import PoolSettings

SPEED = 60.0
TOKEN = "correct-horse"
WITHIN_SECONDS = 60.0
"""A hang ends the test; nothing is asserted about time."""


@dataclass
class Run:
    """A control plane that runs as a task beside its pool."""

    settings: Settings
    http: HttpPool
    addresses: dict[str, str]
    stop: asyncio.Event
    said: "asyncio.Queue[str]"
    task: "asyncio.Task[int] | None" = None

    def start(self, document: KVCachePolicy) -> None:
        self.stop.clear()
        coroutine = run_standalone(self.settings, document, self.stop, say=self.said.put_nowait)
        self.task = asyncio.create_task(coroutine)

    async def until_said(self, part: str) -> str:
        """Wait for a line that holds `part`."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while part not in (text := await self.said.get()):
                pass
            return text

    async def until_pushed(self) -> None:
        """Wait for the next push that an agent takes."""
        self.http.pushed.clear()
        async with asyncio.timeout(WITHIN_SECONDS):
            await self.http.pushed.wait()

    async def end(self) -> int:
        """Ask it to stop and wait for its result."""
        self.stop.set()
        return await self.result()

    async def result(self) -> int:
        assert self.task is not None
        async with asyncio.timeout(WITHIN_SECONDS):
            return await self.task


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    clock = WallClock(speed=SPEED)
    now = clock.now().timestamp() // 5 * 5
    pool = Pool(PoolSettings(agents=4, start=now, speed=SPEED), config=cache_config())
    http = HttpPool(pool, lambda: clock.now().timestamp(), TOKEN)
    write_token(tmp_path)
    async with serving(http) as addresses:
        settings = Settings(
            state_dir=tmp_path / "state",
            token_file=tmp_path / "token",
            agents=tuple(addresses.values()),
            speed=SPEED,
            health_port=0,
        )
        made = Run(settings, http, addresses, asyncio.Event(), asyncio.Queue())
        yield made
        if made.task is not None and not made.task.done():
            made.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await made.task


def write_token(folder: Path) -> None:
    (folder / "token").write_text(TOKEN)


def state_of(run: Run) -> StateDir:
    return StateDir(run.settings.state_dir)


START: dict[str, Any] = {"knobs": {"cacheTTL": {"min": "30s", "max": "600s", "start": "60s"}}}


async def test_it_brings_all_agents_to_the_start_and_shows_itself(run: Run) -> None:
    run.start(policy(**START))
    address = (await run.until_said("health and metrics on")).split()[4].rstrip(",").removesuffix("/healthz")
    await run.until_pushed()

    async with httpx.AsyncClient(trust_env=False, base_url=address) as client:
        health = await client.get("/healthz")
        status = (await client.get("/v1/status")).json()
        metrics = (await client.get("/metrics")).text

    assert health.status_code == 200
    assert status["policies"][0]["metadata"]["name"] == "chat"
    assert "kvtune_pushes_total" in metrics
    assert await run.end() == STOPPED
    assert policies(state_of(run))[0].status is not None


async def test_every_start_has_a_higher_token_and_keeps_the_policys_identity(run: Run) -> None:
    uids, tokens = [], []
    for _ in range(2):
        run.start(policy(**START))
        await run.until_said("fencing token")
        assert await run.end() == STOPPED
        uids.append(policies(state_of(run))[0].metadata.uid)
        tokens.append(previous_token(state_of(run)))

    assert uids[0] == uids[1]
    assert tokens[0] < tokens[1]


async def test_a_newer_control_plane_ends_this_one_as_fenced(run: Run) -> None:
    run.start(policy(**START))
    await run.until_pushed()

    for agent in run.http.pool.agents.values():
        agent.token += 10**15
        agent.config = cache_config(ttl=300)

    assert await run.result() == FENCED


async def test_a_held_state_directory_is_refused(run: Run) -> None:
    objects = FileObjects(state_of(run))

    with pytest.raises(Locked, match="another control plane holds this directory"):
        await run_standalone(run.settings, policy(), run.stop)
    objects.close()


async def test_a_start_that_fails_gives_the_directory_free(run: Run) -> None:
    write_file(run.settings.token_file, "")

    with pytest.raises(Unavailable, match="is empty"):
        await run_standalone(run.settings, policy(), run.stop)

    FileObjects(state_of(run)).close()


def write_file(path: Path, text: str) -> None:
    path.write_text(text)


async def test_without_agents_it_does_not_start(run: Run) -> None:
    with pytest.raises(SpecError, match=r"spec\.selector\.addresses: is empty"):
        await run_standalone(replace(run.settings, agents=()), policy(), run.stop)


async def test_the_token_is_not_given_to_plain_http_beyond_this_machine(run: Run) -> None:
    far = replace(run.settings, agents=("http://192.0.2.1:9000",))

    with pytest.raises(SpecError, match="the token is not sent over plain http"):
        await run_standalone(far, policy(), run.stop)


async def test_a_file_of_authorities_that_is_none_is_told(run: Run) -> None:
    with pytest.raises(Unavailable, match="none"):
        await run_standalone(replace(run.settings, ca_file=Path("none.pem")), policy(), run.stop)


async def test_an_edit_of_the_policys_file_is_followed_and_a_wrong_one_is_told(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    write_file(path, yaml.safe_dump(dump(policy(**START))))
    run.settings = replace(run.settings, policy_file=path)
    run.start(policy(**START))
    await run.until_pushed()

    write_file(path, "kind: KVCachePolicy\nspec: 7\n")
    await until(lambda: any("is not applied" in event.message for event in read_events(state_of(run).events)))
    write_file(path, yaml.safe_dump(dump(policy(**START, paused=True))))
    await until(lambda: policies(state_of(run))[0].metadata.generation == 2)

    assert policies(state_of(run))[0].spec.paused
    assert await run.end() == STOPPED


async def until(condition: Any) -> None:
    """Let the control plane go on until a condition holds."""
    clock = WallClock()
    async with asyncio.timeout(WITHIN_SECONDS):
        while not condition():
            await clock.sleep(0.02)
