"""The eviction policy over HTTP: what runs, why not, and the way back."""

import httpx

from kvtune_api.codec import parse_json
from kvtune_api.names import Metric as Name
from kvtune_api.wire import Report
from tests.agent.fake_clock import ORIGIN
from tests.agent.samples import WRITE, push_body
from tests.agent.test_telemetry import families, value

T = int(ORIGIN)


async def _without_reuse(client: httpx.AsyncClient) -> None:
    """Ask for SIEVE, and serve five minutes of blocks that nobody asked for before."""
    pushed = push_body(role="incumbent", config={"evictionPolicy": "SIEVE", "storeThreshold": 2})
    assert (await client.put("/v1/config", json=pushed, headers=WRITE)).status_code == 200
    requests = [[T + 1 + 2 * i, i, 128 * 20, 10, list(range(i * 100, i * 100 + 20))] for i in range(1, 160)]
    served = await client.post("/v1/replay", json={"until": T + 325, "requests": requests}, headers=WRITE)
    assert served.status_code == 200, served.text


async def _report(client: httpx.AsyncClient) -> Report:
    return parse_json(Report, (await client.get("/v1/report")).content)


async def test_the_policy_asked_for_and_the_threshold_are_shown(client: httpx.AsyncClient) -> None:
    pushed = push_body(config={"evictionPolicy": "ReuseAware", "storeThreshold": 3})
    assert (await client.put("/v1/config", json=pushed, headers=WRITE)).status_code == 200

    found = await families(client)

    assert value(found, Name.AGENT_EVICTION_POLICY, eviction_policy="ReuseAware") == 1
    assert value(found, Name.AGENT_STORE_THRESHOLD) == 3
    assert value(found, Name.AGENT_FALLBACK) == 0
    assert (await _report(client)).running.config.store_threshold == 3


async def test_a_fallback_is_in_the_report_and_in_the_metrics(client: httpx.AsyncClient) -> None:
    await _without_reuse(client)

    found, report = await families(client), await _report(client)

    assert report.running.config.eviction_policy == "SIEVE", "what it was asked to run"
    assert report.fallback is not None
    assert report.fallback.reason == "LowReuse"
    assert value(found, Name.AGENT_FALLBACK) == 1
    assert value(found, Name.AGENT_FALLBACKS, "_total", reason="LowReuse") == 1


async def test_it_is_told_to_return_with_the_token_alone(client: httpx.AsyncClient) -> None:
    await _without_reuse(client)

    assert (await client.post("/v1/eviction/restore")).status_code == 401
    assert (await _report(client)).fallback is not None
    answer = await client.post("/v1/eviction/restore", headers=WRITE)

    assert answer.status_code == 200
    assert "fallback" not in answer.json()
    assert value(await families(client), Name.AGENT_FALLBACK) == 0


async def test_a_policy_that_nobody_knows_is_refused_with_the_choices(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/config", json=push_body(config={"evictionPolicy": "MRU"}), headers=WRITE)

    assert answer.status_code == 422
    assert "config.evictionPolicy: 'MRU': input should be 'LRU', 'FIFO'" in answer.json()["message"]


async def test_what_is_learned_is_told_by_a_policy_that_learns_and_by_no_other(
    client: httpx.AsyncClient,
) -> None:
    nothing = await client.get("/v1/eviction/learned")
    assert (nothing.status_code, nothing.json()["reason"]) == (404, "NothingLearned")
    pushed = push_body(role="incumbent", config={"evictionPolicy": "ReuseAware"})
    assert (await client.put("/v1/config", json=pushed, headers=WRITE)).status_code == 200
    requests = [[T + 1 + 2 * i, 1, 128 * 20, 10, list(range(20))] for i in range(40)]
    served = await client.post("/v1/replay", json={"until": T + 90, "requests": requests}, headers=WRITE)
    assert served.status_code == 200, served.text

    found = (await client.get("/v1/eviction/learned")).json()

    assert found["version"] == 1
    assert found["requests"] == 40
    assert sum(sum(one["events"]) for one in found["classes"].values()) > 0
