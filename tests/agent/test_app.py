"""The agent's HTTP surface: pushes, reports, bad bodies, tokens, load."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvtune_agent.agent import Agent
from kvtune_agent.app import create_app
from kvtune_agent.bodies import PUSH_BYTES_MAX
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.tokens import TokenFile
from kvtune_api.codec import parse_json
from kvtune_api.wire import Refusal, Report, Role, Running
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import BETTER, START, WRITE, push_body

T = int(ORIGIN)


async def put(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    return await client.put("/v1/config", json=push_body(**changes), headers=WRITE)


def refusal_of(answer: httpx.Response) -> Refusal:
    return parse_json(Refusal, answer.content)


def requests(count: int, blocks: int = 8) -> dict[str, Any]:
    return {
        "until": T + 5,
        "requests": [
            [T + 5 * i / count, i, 128 * blocks, 10, list(range(i * blocks, (i + 1) * blocks))]
            for i in range(1, count + 1)
        ],
    }


async def turns_until_busy(agent: Agent) -> None:
    assert isinstance(agent.engine, ReplayEngine)
    for _ in range(1000):
        if agent.engine.pending:
            return
        await asyncio.sleep(0)
    raise AssertionError("no batch was taken")


async def test_a_push_is_answered_with_what_runs(client: httpx.AsyncClient) -> None:
    answer = await put(client)

    assert answer.status_code == 200
    told = parse_json(Running, answer.content)
    assert (told.role, told.config, told.incumbent) == (Role.CANDIDATE, BETTER, START)
    assert parse_json(Running, (await client.get("/v1/config")).content).generation == 1


async def test_a_repeated_push_is_fine_and_a_stale_one_is_not(client: httpx.AsyncClient) -> None:
    await put(client, generation=2)

    assert (await put(client, generation=2)).status_code == 200
    stale = await put(client, generation=1)
    assert (stale.status_code, refusal_of(stale).reason) == (409, "StaleGeneration")


BAD_BODIES: dict[str, tuple[str | bytes, int, str, str]] = {
    "nothing": (b"", 400, "BadJson", "is not JSON"),
    "not JSON": ("role=candidate", 400, "BadJson", "is not JSON"),
    "half of it": (json.dumps(push_body())[:40], 400, "BadJson", "is not JSON"),
    "no text": (b'{"role": "\xff"}', 400, "BadJson", "is not JSON"),
    "a list": ("[]", 422, "Invalid", "must be an object"),
    "null": ("null", 422, "Invalid", "must be an object"),
    "an unknown field": (json.dumps(push_body(urgent=True)), 422, "Invalid", "urgent: unknown field"),
    "an unknown knob": (
        json.dumps(push_body(config={"prefetchDepth": 3})),
        422,
        "Invalid",
        "config.prefetchDepth: unknown field",
    ),
    "a field missing": (json.dumps(push_body(token=None)), 422, "Invalid", "token: is required"),
    "a candidate without a lease": (json.dumps(push_body(leaseSeconds=None)), 422, "Invalid", "leaseSeconds"),
    "an incumbent with a lease": (
        json.dumps(push_body() | {"role": "incumbent"}),
        422,
        "Invalid",
        "leaseSeconds",
    ),
    "a negative token": (json.dumps(push_body(token=-1)), 422, "Invalid", "token"),
    "a ratio above 1": (
        json.dumps(push_body(config={"evictionRatio": 1.5})),
        422,
        "Invalid",
        "evictionRatio",
    ),
    "a duration without a unit": (
        json.dumps(push_body(config={"cacheTTL": "30"})),
        422,
        "Invalid",
        "cacheTTL",
    ),
    "NaN": (json.dumps(push_body(leaseSeconds=float("nan"))), 422, "Invalid", "leaseSeconds"),
    "a number that is too large": (json.dumps(push_body(leaseSeconds=1e9)), 422, "Invalid", "leaseSeconds"),
    "less than one block": (
        json.dumps(push_body(config={"tiers": {"hostMemory": "1Ki"}})),
        422,
        "Invalid",
        "config.tiers.hostMemory: 1024 bytes is less than one block of 16777216 bytes",
    ),
}


@pytest.mark.parametrize(("body", "status", "reason", "words"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_is_refused_with_the_field_and_changes_nothing(
    client: httpx.AsyncClient, agent: Agent, body: str | bytes, status: int, reason: str, words: str
) -> None:
    answer = await client.put("/v1/config", content=body, headers=WRITE)

    assert answer.status_code == status, answer.text
    assert refusal_of(answer).reason == reason
    assert words in refusal_of(answer).message
    assert agent.running().token == 0
    assert agent.refused == {reason: 1}


async def test_everything_wrong_with_a_body_is_said_at_once(client: httpx.AsyncClient) -> None:
    answer = await put(client, generation=-1, token="x", config={"evictionRatio": 0})

    for path in ("generation", "token", "config.evictionRatio"):
        assert path in refusal_of(answer).message


async def test_a_body_that_is_too_large_is_refused_by_its_announced_length(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/config", content=b" " * (PUSH_BYTES_MAX + 1), headers=WRITE)

    assert (answer.status_code, refusal_of(answer).reason) == (413, "BodyTooLarge")
    assert str(PUSH_BYTES_MAX) in refusal_of(answer).message


async def test_a_body_that_is_too_large_is_refused_while_it_comes(client: httpx.AsyncClient) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    answer = await client.put("/v1/config", content=parts(), headers=WRITE)

    assert answer.status_code == 413


WRITES = (("PUT", "/v1/config", push_body()), ("POST", "/v1/replay", requests(1)))


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic correct-horse", "correct-horse"]
)
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=("config", "replay"))
async def test_no_write_without_the_token(
    client: httpx.AsyncClient, agent: Agent, method: str, path: str, body: object, header: str | None
) -> None:
    headers = {} if header is None else {"authorization": header}
    answer = await client.request(method, path, json=body, headers=headers)

    assert (answer.status_code, refusal_of(answer).reason) == (401, "Unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert agent.running().token == 0
    assert agent.report().counters is None


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=("config", "replay"))
@pytest.mark.parametrize("text", [None, "", "  \n"], ids=("missing", "empty", "blank"))
async def test_without_a_token_file_nothing_can_be_written_by_anyone(
    client: httpx.AsyncClient, tmp_path: Path, method: str, path: str, body: object, text: str | None
) -> None:
    (tmp_path / "token").unlink()
    if text is not None:
        (tmp_path / "token").write_text(text)

    for headers in ({}, {"authorization": "Bearer "}, WRITE):
        answer = await client.request(method, path, json=body, headers=headers)
        assert (answer.status_code, refusal_of(answer).reason) == (503, "TokenUnavailable")
        assert "no write is accepted" in refusal_of(answer).message


async def test_a_rotated_token_counts_at_once(client: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("rotated")

    assert (await put(client)).status_code == 401
    answer = await client.put("/v1/config", json=push_body(), headers={"authorization": "Bearer rotated"})
    assert answer.status_code == 200


async def test_reads_need_no_token(client: httpx.AsyncClient, agent: Agent) -> None:
    agent.beat()

    for path in ("/v1/config", "/v1/report", "/metrics", "/healthz", "/readyz", "/openapi.json"):
        assert (await client.get(path)).status_code == 200, path


async def test_a_report_holds_what_a_control_plane_asks(client: httpx.AsyncClient) -> None:
    await client.post("/v1/replay", json=requests(10), headers=WRITE)

    report = parse_json(Report, (await client.get("/v1/report")).content)

    assert (report.agent, report.engine, report.clock) == ("a1", "replay", ORIGIN)
    assert [support.knob for support in report.supports] == ["cacheTTL", "evictionRatio", "tiers.hostMemory"]
    assert report.geometry is not None
    assert report.counters is not None
    assert (report.counters.at, report.counters.requests, report.missing) == (T + 5, 10, None)
    assert report.reuse is not None
    assert report.reuse.touches == 80


async def test_counters_of_a_time_are_those_of_that_time_ever_after(client: httpx.AsyncClient) -> None:
    await client.post("/v1/replay", json=requests(10), headers=WRITE)
    later = {"until": T + 20, "requests": [[T + 12, 1, 128, 1, [1]]]}
    await client.post("/v1/replay", json=later, headers=WRITE)

    counted = []
    for at in (T + 5, T + 10, T + 15):
        report = parse_json(Report, (await client.get("/v1/report", params={"at": at})).content)
        assert report.counters is not None
        counted.append(report.counters.requests)

    assert counted == [10, 10, 11]


@pytest.mark.parametrize(("at", "missing"), [(T + 10, "NotYet"), (T - 5, "BoundMissed"), (-5, "BoundMissed")])
async def test_a_time_without_counters_is_answered_with_the_reason(
    client: httpx.AsyncClient, at: int, missing: str
) -> None:
    await client.post("/v1/replay", json=requests(10), headers=WRITE)

    answer = await client.get("/v1/report", params={"at": at})

    assert answer.status_code == 200
    report = parse_json(Report, answer.content)
    assert (report.counters, report.missing) == (None, missing)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("1003", "nearest are 1000 and 1005"),
        ("1000.5", "nearest are 1000 and 1005"),
        ("-3", "nearest are -5 and 0"),
        ("nan", "not a finite number"),
        ("inf", "not a finite number"),
        ("now", "at: 'now'"),
        ("", "at: ''"),
    ],
)
async def test_a_time_off_the_grid_is_refused_with_the_nearest_times(
    client: httpx.AsyncClient, at: str, words: str
) -> None:
    answer = await client.get("/v1/report", params={"at": at})

    assert (answer.status_code, refusal_of(answer).reason) == (400, "BadTime")
    assert words in refusal_of(answer).message


async def test_a_replay_tells_what_became_of_the_batch(client: httpx.AsyncClient) -> None:
    first = await client.post("/v1/replay", json=requests(10), headers=WRITE)
    again = await client.post("/v1/replay", json=requests(10), headers=WRITE)

    assert first.json() == {"served": 10, "repeated": 0, "late": 0, "errors": 0, "watermark": T + 5}
    assert again.json() == {"served": 0, "repeated": 10, "late": 0, "errors": 0, "watermark": T + 5}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"until": T}, "requests: is required"),
        ({"until": T, "requests": [[T, 1, 128, 1]]}, "requests[0]"),
        ({"until": T, "requests": [[T, 1, 0, 1, []]]}, "requests[0][2]"),
        ({"until": T, "requests": [[T, 1, 128, 1, ["x"]]]}, "requests[0][4][0]"),
        ({"until": T - 1, "requests": [[T, 1, 128, 1, [1]]]}, "until"),
        ({"until": T, "requests": [], "seed": 1}, "seed: unknown field"),
        ({"until": 1e300, "requests": []}, "too far ahead"),
    ],
)
async def test_a_bad_batch_is_refused_with_the_field(
    client: httpx.AsyncClient, body: object, words: str
) -> None:
    answer = await client.post("/v1/replay", json=body, headers=WRITE)

    assert (answer.status_code, refusal_of(answer).reason) == (422, "Invalid")
    assert words in refusal_of(answer).message


async def test_metrics_and_configuration_answer_while_a_huge_batch_is_served(
    client: httpx.AsyncClient, agent: Agent
) -> None:
    ended: list[str] = []

    async def replay() -> None:
        answer = await client.post("/v1/replay", json=requests(8000, blocks=24), headers=WRITE)
        assert answer.json()["served"] == 8000
        ended.append("replay")

    async def others() -> None:
        await turns_until_busy(agent)
        for path in ("/metrics", "/v1/config", "/v1/report"):
            assert (await client.get(path)).status_code == 200
            ended.append(path)

    await asyncio.gather(replay(), others())

    assert ended == ["/metrics", "/v1/config", "/v1/report", "replay"]


async def test_a_full_queue_is_answered_with_a_time_to_wait(client: httpx.AsyncClient, agent: Agent) -> None:
    tiny = [[T + 5, 1, 1, 1, [1]]] * 20_000

    body = {"until": T + 5, "requests": tiny}
    serving = asyncio.create_task(client.post("/v1/replay", json=requests(4000, blocks=24), headers=WRITE))
    await turns_until_busy(agent)
    answer = await client.post("/v1/replay", json=body, headers=WRITE)

    assert (answer.status_code, refusal_of(answer).reason) == (429, "QueueFull")
    assert answer.headers["retry-after"] == "1"
    assert (await serving).status_code == 200


async def test_ready_only_while_the_heart_beats(
    client: httpx.AsyncClient, agent: Agent, clock: FakeClock
) -> None:
    assert (await client.get("/readyz")).status_code == 503
    agent.beat()
    assert (await client.get("/readyz")).status_code == 200
    clock.advance(5)
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/healthz")).status_code == 200


async def test_the_heart_beats_while_the_application_is_served(agent: Agent, tmp_path: Path) -> None:
    app = create_app(agent, TokenFile(tmp_path / "token"))

    async with app.router.lifespan_context(app):
        await asyncio.sleep(0)
        assert agent.is_alive()


async def test_unknown_paths_and_methods_are_refused_in_our_words(client: httpx.AsyncClient) -> None:
    missing, wrong = await client.get("/v1/nothing"), await client.delete("/v1/config")

    assert (missing.status_code, refusal_of(missing).reason) == (404, "NotFound")
    assert wrong.status_code == 405
    assert "/v1/nothing" in refusal_of(missing).message


async def test_openapi_describes_every_route_and_resolves(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    assert set(document["paths"]) == {
        "/v1/config",
        "/v1/report",
        "/v1/replay",
        "/metrics",
        "/healthz",
        "/readyz",
    }
    schemas = document["components"]["schemas"]
    for name in _references(document):
        assert name.removeprefix("#/components/schemas/") in schemas
    body = document["paths"]["/v1/config"]["put"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"role", "generation", "token", "policyUID", "config", "leaseSeconds"}
    assert body["properties"]["token"]["description"].startswith("Fencing token")


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(item) for item in value))
    return set()


async def test_a_client_that_leaves_while_its_body_is_read_is_one_quiet_line(
    agent: Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = create_app(agent, TokenFile(tmp_path / "token"))
    half = {"type": "http.request", "body": b'{"role": ', "more_body": True}
    arriving = [half, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return arriving.pop(0)

    async def send(_message: Any) -> None:
        """Nobody hears it."""

    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/v1/config",
        "query_string": b"",
        "headers": [(b"authorization", WRITE["authorization"].encode())],
    }
    await app(scope, receive, send)

    ours = [record for record in caplog.records if record.name.startswith("kvtune_agent")]
    assert [(record.levelname, record.exc_info) for record in ours] == [("DEBUG", None)]
    assert agent.running().role is Role.INCUMBENT


async def test_log_lines_about_what_is_held_name_the_agent(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kvtune_agent")

    await put(client)

    said = [vars(record)["agent"] for record in caplog.records if record.msg == "configuration changed"]
    assert said == ["a1"]
