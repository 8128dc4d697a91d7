"""What ReuseAware has learned survives a restart, and a file that does not fit costs a cold start alone."""

import asyncio
import json
import logging
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvtune_agent.agent import Agent
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.exits import ExitCode
from kvtune_agent.lessons import BYTES_MAX, FILE_NAME, LessonsFile, keep_learned
from kvtune_api.knobs import EvictionPolicy
from kvtune_cache.constants import H100_LLAMA8B
from tests.agent.engines.replaying import replayed
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import WRITE, batch, cache_config, new_agent, push, push_body
from tests.agent.test_process import running_agent

T = int(ORIGIN)
CLOCK = ("--origin", "1700000000", "--speed", "600")
ASKED = {"role": "incumbent", "config": {"evictionPolicy": "ReuseAware"}}


def agent_of(folder: Path, clock: FakeClock, policy: EvictionPolicy = EvictionPolicy.REUSE_AWARE) -> Agent:
    return new_agent(folder, clock, config=replace(cache_config(), eviction_policy=policy))


async def taught(agent: Agent, since: int = T) -> Mapping[str, object]:
    """Serve forty turns of a session; what was learned by then."""
    assert isinstance(agent.engine, ReplayEngine)
    turns = [(since + 1 + 2 * i, list(range(20))) for i in range(40)]
    await replayed(agent.engine, batch(since + 90, *turns))
    lessons = agent.engine.lessons()
    assert lessons is not None
    return lessons


def is_cold(agent: Agent) -> bool:
    learned = agent.engine.learned()
    return learned is not None and (learned["requests"], learned["classes"]) == (0, {})


def save(agent: Agent) -> None:
    text = agent.lessons.due()
    assert text is not None
    agent.lessons.write(text)


async def test_a_restarted_agent_begins_with_what_was_learned(tmp_path: Path) -> None:
    first = agent_of(tmp_path, FakeClock(speed=600))
    lessons = await taught(first)
    save(first)
    first.close()

    second = agent_of(tmp_path, FakeClock(speed=600))

    assert second.engine.learned() == lessons
    assert second.lessons.due() is None, "nothing new to write"
    second.close()


async def test_lessons_wait_while_another_policy_runs(tmp_path: Path) -> None:
    first = agent_of(tmp_path, FakeClock(speed=600))
    lessons = await taught(first)
    save(first)
    first.close()

    second = agent_of(tmp_path, FakeClock(speed=600), EvictionPolicy.LRU)
    assert second.engine.learned() is None
    await second.push(push(**ASKED))

    assert second.engine.learned() == lessons
    second.close()


async def test_a_policy_that_comes_back_knows_what_it_had_learned(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, FakeClock(speed=600))
    lessons = await taught(agent)

    await agent.push(push(generation=1, role="incumbent", config={"evictionPolicy": "LRU"}))
    assert (agent.engine.learned(), agent.engine.lessons()) == (None, lessons)
    await agent.push(push(generation=2, **ASKED))

    after = agent.engine.learned()
    assert after is not None
    assert after["requests"] == lessons["requests"]
    assert counted(after, "events") == counted(lessons, "events")
    assert counted(after, "cluster") == counted(lessons, "cluster")
    agent.close()


def counted(lessons: Any, field: str) -> dict[str, list[float]]:
    """Counts by class, of those in which something was counted."""
    return {name: one[field] for name, one in lessons["classes"].items() if any(one[field])}


async def test_what_was_learned_is_written_every_minute_and_at_the_end(tmp_path: Path) -> None:
    clock = FakeClock(speed=600)
    agent = agent_of(tmp_path, clock)
    keeping = asyncio.create_task(keep_learned(agent.lessons, clock))
    await asyncio.sleep(0)
    file = tmp_path / "state" / FILE_NAME
    await taught(agent)
    assert not file.exists()

    clock.advance(60)
    while not file.exists():  # noqa: ASYNC110  # another thread writes it
        await asyncio.sleep(0)
    minute = json.loads(file.read_text())["lessons"]
    assert minute == agent.engine.lessons()
    await taught(agent, T + 100)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)

    assert json.loads(file.read_text())["lessons"] == agent.engine.lessons() != minute
    agent.close()


def changed(lessons: Mapping[str, object], **fields: Any) -> str:
    return json.dumps({"blockTokens": 128, "lessons": {**lessons, **fields}})


BAD = {
    "not JSON": ("{", "Expecting property name"),
    "not UTF-8": (b"\xff\xfe\x00", "can't decode"),
    "empty": ("", "Expecting value"),
    "a list": ("[]", "lessons: is missing or not an object"),
    "blocks of another size": ('{"blockTokens": 16, "lessons": {}}', "blockTokens: 16 is not 128"),
    "another version": ('{"blockTokens": 128, "lessons": {"version": 0}}', "version: 0 is not 1"),
    "too large": (" " * (BYTES_MAX + 1), f"more than {BYTES_MAX} bytes"),
    "nested too deeply": ("[" * 100_000, "recursion"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_does_not_fit_is_one_line_and_a_cold_start(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content, why = BAD[case]
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE_NAME).write_bytes(content if isinstance(content, bytes) else content.encode())

    with caplog.at_level(logging.WARNING):
        agent = agent_of(tmp_path, FakeClock(speed=600))

    assert [record.getMessage() for record in caplog.records] == [
        "lessons of an earlier process refused, cold start"
    ]
    assert why in vars(caplog.records[0])["why"]
    assert is_cold(agent)
    agent.close()


async def test_a_bad_count_deep_in_the_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = agent_of(tmp_path, FakeClock(speed=600))
    lessons = dict(await taught(first))
    first.close()
    classes = dict(lessons["classes"])  # type: ignore[call-overload]  # a mapping
    classes["5"] = {**next(iter(classes.values())), "cluster": [-1, 0]}
    (tmp_path / "state" / FILE_NAME).write_text(changed(lessons, classes=classes))

    second = agent_of(tmp_path, FakeClock(speed=600))

    assert "classes.5.cluster: -1 is not a number >= 0" in vars(caplog.records[-1])["why"]
    assert is_cold(second)
    second.close()


async def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_of(tmp_path, FakeClock(speed=600))
    await taught(agent)
    (tmp_path / "state" / (FILE_NAME + ".tmp")).mkdir()

    save(agent)

    assert [record.getMessage() for record in caplog.records] == ["lessons not kept"]
    agent.close()


def learned(client: httpx.Client) -> Any:
    answer = client.get("/v1/eviction/learned")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_agent_process_keeps_what_it_has_learned_over_a_stop_and_over_kill_9(tmp_path: Path) -> None:
    origin = 1_700_000_000
    with running_agent(tmp_path, *CLOCK) as (process, client):
        assert client.put("/v1/config", json=push_body(**ASKED), headers=WRITE).status_code == 200
        rows = [[origin + 1 + 2 * i, 1, 128 * 20, 10, list(range(20))] for i in range(40)]
        served = client.post("/v1/replay", json={"until": origin + 90, "requests": rows}, headers=WRITE)
        assert served.json()["served"] == 40
        before = learned(client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == ExitCode.OK

    with running_agent(tmp_path, *CLOCK) as (process, client):
        assert learned(client) == before
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)

    with running_agent(tmp_path, *CLOCK) as (_process, client):
        assert learned(client) == before
        assert before["requests"] == 40


def test_lessons_that_cannot_be_told_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(ReplayEngine):
        def lessons(self) -> Mapping[str, object] | None:
            raise ValueError("cannot convert float NaN to integer")

    engine = Wrong(H100_LLAMA8B, cache_config(), FakeClock(), keep_seconds=4200.0)

    assert LessonsFile("a1", tmp_path, engine).due() is None
    assert vars(caplog.records[-1])["why"] == "cannot convert float NaN to integer"
