"""The agent's HTTP surface: pushes, bad bodies, readiness, what it says of itself."""

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
from kvtune_agent.tokens import TokenFile
from kvtune_api.codec import parse_json
from kvtune_api.wire import Role, Running
from tests.agent.fake_clock import FakeClock
from tests.agent.http_calls import put, refusal_of
from tests.agent.samples import BETTER, START, WRITE, push_body


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
        "/v1/eviction/learned",
        "/v1/eviction/restore",
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
    knobs = {"config", "leaseSeconds", "fallbackRules"}
    assert set(body["properties"]) == {"role", "generation", "token", "policyUID"} | knobs
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
