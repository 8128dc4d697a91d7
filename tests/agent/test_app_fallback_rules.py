"""A push says when an agent's eviction policy gives way to LRU, and when it returns."""

from pathlib import Path
from typing import Any

import httpx

from kvtune_api.codec import parse_json
from kvtune_api.wire import FallbackRules, Report
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import WRITE, new_agent, push, push_body

T = int(ORIGIN)
STRICT = {"leastReuseRate": 0.9, "overSeconds": 120, "returnAfterSeconds": 60}
LAX = {"leastReuseRate": 0, "overSeconds": 300}


async def ask(client: httpx.AsyncClient, generation: int, rules: dict[str, Any] | None) -> None:
    body = push_body(
        role="incumbent",
        generation=generation,
        config={"evictionPolicy": "SIEVE"},
        fallbackRules=rules,
    )
    answer = await client.put("/v1/config", json=body, headers=WRITE)
    assert answer.status_code == 200, answer.text
    assert answer.json().get("fallbackRules") == rules


async def serve(client: httpx.AsyncClient, since: int, seconds: int, *, new_of_ten: int) -> Report:
    """Serve a request of ten blocks a second, so many of which nobody asked for before."""
    rows = []
    for at in range(since + 1, since + seconds):
        kept = list(range(10 - new_of_ten))
        fresh = range(at * 100, at * 100 + new_of_ten)
        rows.append([at, 1, 1280, 10, [*kept, *fresh]])
    body = {"until": since + seconds, "requests": rows}
    assert (await client.post("/v1/replay", json=body, headers=WRITE)).status_code == 200
    return parse_json(Report, (await client.get("/v1/report")).content)


async def test_pushed_rules_judge_in_place_of_the_agents_own(client: httpx.AsyncClient) -> None:
    await ask(client, 1, LAX)
    assert (await serve(client, T, 400, new_of_ten=9)).fallback is None, "only a failure counts"

    await ask(client, 2, None)
    fallen = await serve(client, T + 400, 400, new_of_ten=9)

    assert fallen.fallback is not None and fallen.fallback.message.startswith("reuse rate 0.1")
    assert "under 0.4 for 300 s" in fallen.fallback.message


async def test_a_policy_returns_when_the_rules_say_so(client: httpx.AsyncClient) -> None:
    await ask(client, 1, STRICT)
    fallen = await serve(client, T, 200, new_of_ten=2)
    assert fallen.fallback is not None and "under 0.9 for 120 s" in fallen.fallback.message

    returned = await serve(client, T + 200, 400, new_of_ten=0)

    assert returned.fallback is None
    assert returned.running.config.eviction_policy == "SIEVE"


async def test_rules_alone_are_taken_under_the_same_generation(client: httpx.AsyncClient) -> None:
    await ask(client, 1, STRICT)
    await ask(client, 1, LAX)
    await ask(client, 1, None)


async def test_rules_out_of_their_limits_are_refused(client: httpx.AsyncClient) -> None:
    body = push_body(fallbackRules={"leastReuseRate": 1, "overSeconds": 3601})

    answer = await client.put("/v1/config", json=body, headers=WRITE)

    assert answer.status_code == 422
    assert "fallbackRules.leastReuseRate" in answer.json()["message"]
    assert "fallbackRules.overSeconds" in answer.json()["message"]


async def test_rules_survive_a_restart(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock())
    rules = FallbackRules(least_reuse_rate=0.9, over_seconds=120.0, return_after_seconds=60.0)
    await agent.push(push(role="incumbent", config={"evictionPolicy": "SIEVE"}, fallbackRules=STRICT))
    agent.close()

    again = new_agent(tmp_path, FakeClock())

    assert again.running().fallback_rules == rules
    again.close()
