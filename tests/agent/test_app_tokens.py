"""Who may write to an agent: the token, its file, and nobody without them."""

from pathlib import Path

import httpx
import pytest

from kvtune_agent.agent import Agent
from tests.agent.http_calls import put, refusal_of, requests
from tests.agent.samples import WRITE, push_body

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
