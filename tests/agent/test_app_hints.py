"""Hints of clients reach the eviction policy of an agent over HTTP."""

from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvtune_agent.app import create_app
from kvtune_agent.tokens import TokenFile
from kvtune_api.codec import dump, parse_json
from kvtune_api.wire import Report
from kvtune_lab.generator import generate
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import WRITE, cache_config, new_agent, push_body

T = int(ORIGIN)
SECONDS = 600


def row(at: float, blocks: list[int], *hint: Any) -> list[Any]:
    return [at, blocks[0], 128 * len(blocks), 10, blocks, *hint]


async def test_a_request_comes_with_a_hint_or_without(client: httpx.AsyncClient) -> None:
    rows = [
        row(T + 1, [1, 2]),
        row(T + 2, [1, 2], {"toolRunning": True}),
        row(T + 3, [1, 2], {"expectedReturnSeconds": 30}),
        row(T + 4, [1, 2], {"sessionEnded": True}),
        row(T + 5, [1, 2], None),
    ]

    answer = await client.post("/v1/replay", json={"until": T + 5, "requests": rows}, headers=WRITE)

    assert (answer.status_code, answer.json()["served"]) == (200, 5)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (
            {"expectedReturnSeconds": -1},
            "requests[1][5].expectedReturnSeconds: -1: input should be greater than 0",
        ),
        ({"sessionEnded": 1}, "requests[1][5].sessionEnded: 1: input should be a valid boolean"),
        (
            {"sessionEnded": True, "toolRunning": True},
            "requests[1][5]: sessionEnded: true contradicts toolRunning",
        ),
        ({"idle": True}, "requests[1][5].idle: unknown field"),
        (30, "requests[1][5]: must be an object, not 30"),
    ],
)
async def test_a_bad_hint_is_one_clear_refusal_and_nothing_is_served(
    client: httpx.AsyncClient, hint: Any, words: str
) -> None:
    rows = [row(T + 1, [1, 2]), row(T + 2, [1, 2], hint)]

    answer = await client.post("/v1/replay", json={"until": T + 5, "requests": rows}, headers=WRITE)

    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["message"] == words
    whole = {"until": T + 5, "requests": rows[:1]}
    assert (await client.post("/v1/replay", json=whole, headers=WRITE)).json()["served"] == 1


async def hit_tokens(folder: Path, hinted_share: float) -> float:
    """What an agent on ReuseAware has hit of generated sessions, of which that share came with hints."""
    clock = FakeClock(speed=600)
    config, state = cache_config(ttl="3600s", ratio=0.01, host="4Gi"), folder / f"state-{hinted_share}"
    agent = new_agent(folder, clock, config=config, state_dir=state)
    app = create_app(agent, TokenFile(folder / "token"))
    source = generate(requests_per_second=5.0, seed=2, hinted_share=hinted_share)
    requests = takewhile(lambda request: request.arrival_s < SECONDS, source)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        pushed = push_body(role="incumbent", config={"evictionPolicy": "ReuseAware"})
        assert (await client.put("/v1/config", json=pushed, headers=WRITE)).status_code == 200
        while rows := [
            [T + r.arrival_s, r.root, r.prompt_tokens, r.output_tokens, r.blocks]
            + ([dump(r.hint)] if r.hint is not None else [])
            for r in islice(requests, 1000)
        ]:
            body = {"until": rows[-1][0], "requests": rows}
            assert (await client.post("/v1/replay", json=body, headers=WRITE)).json()["errors"] == 0
        end = await client.post("/v1/replay", json={"until": T + SECONDS, "requests": []}, headers=WRITE)
        assert end.status_code == 200
        counters = parse_json(Report, (await client.get("/v1/report")).content).counters
    agent.close()
    assert counters is not None and counters.hit_tokens is not None
    return counters.hit_tokens


async def test_right_hints_let_an_agent_hit_more(tmp_path: Path) -> None:
    without, with_hints = await hit_tokens(tmp_path, 0.0), await hit_tokens(tmp_path, 1.0)

    assert with_hints > 1.02 * without, (with_hints, without)
