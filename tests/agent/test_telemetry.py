"""The agent's metrics, read back by Prometheus' own parser."""

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families as plain

from kvtune_api.names import Metric as Name
from kvtune_cache.serving import TTFT_BOUNDS_SECONDS
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import WRITE, push_body

T = int(ORIGIN)


async def families(client: httpx.AsyncClient) -> dict[str, Metric]:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = list(plain(answer.text))
    assert len({one.name for one in found}) == len(found), "one family a name"
    return {one.name: one for one in found}


def value(found: dict[str, Metric], name: str, sample: str = "", **labels: str) -> float:
    samples = [
        one
        for one in found[name].samples
        if one.name == name + sample and labels.items() <= one.labels.items()
    ]
    assert len(samples) == 1, (name, samples)
    return samples[0].value


async def served(client: httpx.AsyncClient) -> None:
    requests = [[T + 1 + i / 10, 1, 256, 10, [1, 2]] for i in range(30)]
    await client.post("/v1/replay", json={"until": T + 7, "requests": requests}, headers=WRITE)


async def test_before_anything_is_counted_the_counters_are_absent_and_not_zero(
    client: httpx.AsyncClient,
) -> None:
    found = await families(client)

    assert Name.VLLM_PROMPT_TOKENS not in found
    assert Name.AGENT_COUNTERS_AT not in found
    assert value(found, Name.AGENT_STARTED_AT) == ORIGIN


async def test_counters_are_those_of_the_newest_closed_grid_time(client: httpx.AsyncClient) -> None:
    await served(client)

    found = await families(client)

    assert value(found, Name.AGENT_COUNTERS_AT) == T + 5
    assert value(found, Name.VLLM_REQUESTS, "_total", model_name="h100-llama8b") == 30
    assert value(found, Name.VLLM_PROMPT_TOKENS, "_total") == 30 * 256
    assert value(found, Name.VLLM_DEVICE_HITS, "_total") == 29 * 256
    assert value(found, Name.VLLM_EXTERNAL_QUERIES, "_total") == 256
    assert value(found, Name.VLLM_EXTERNAL_HITS, "_total") == 0
    assert value(found, Name.AGENT_EVICTED_BLOCKS, "_total", reason="pressure") == 0
    assert value(found, Name.AGENT_NEW_ROOTS, "_total") == 1


async def test_requests_and_hits_are_counted_by_the_kind_that_clients_tell(client: httpx.AsyncClient) -> None:
    told = [{"requestKind": 3}, {"requestKind": 3, "toolRunning": True}, None, {"sessionEnded": True}]
    rows = [[T + i, 1, 256, 1, [1, 2], hint] for i, hint in enumerate(told, 1)]
    body = {"until": T + 10, "requests": rows}
    assert (await client.post("/v1/replay", json=body, headers=WRITE)).status_code == 200

    found = await families(client)

    for kind, hits in (("3", 256), ("0", 512)):
        assert value(found, Name.AGENT_KIND_REQUESTS, "_total", kind=kind) == 2
        assert value(found, Name.AGENT_KIND_PROMPT, "_total", kind=kind) == 512
        assert value(found, Name.AGENT_KIND_HITS, "_total", kind=kind) == hits
    assert len(found[Name.AGENT_KIND_HITS].samples) == 2, "kinds that were never seen are absent"


async def test_the_histogram_has_the_bounds_of_vllm_and_adds_up(client: httpx.AsyncClient) -> None:
    await served(client)

    found = await families(client)

    samples = found[Name.VLLM_TTFT].samples
    buckets = [one for one in samples if one.name.endswith("_bucket")]
    assert [float(one.labels["le"]) for one in buckets] == [*TTFT_BOUNDS_SECONDS, float("inf")]
    assert [one.value for one in buckets] == sorted(one.value for one in buckets)
    assert value(found, Name.VLLM_TTFT, "_count") == 30 == buckets[-1].value
    assert value(found, Name.VLLM_TTFT, "_sum") > 0
    assert value(found, Name.VLLM_QUEUE_TIME, "_count") == 30


async def test_the_configuration_in_force_is_shown_in_base_units(
    client: httpx.AsyncClient, clock: FakeClock
) -> None:
    await client.put("/v1/config", json=push_body(leaseSeconds=30), headers=WRITE)
    clock.advance(10)

    found = await families(client)

    assert value(found, Name.AGENT_CONFIG_TTL) == 120
    assert value(found, Name.AGENT_CONFIG_HOST) == 57 * 2**30
    assert value(found, Name.AGENT_ROLE) == 1
    assert value(found, Name.AGENT_GENERATION) == 1
    assert value(found, Name.AGENT_LEASE) == 20
    info = found[Name.AGENT_INFO].samples[0].labels
    assert info == {
        "agent": "a1",
        "engine": "replay",
        "role": "candidate",
        "version": "replay-2+h100-llama8b",
    }


async def test_lapses_and_refusals_are_counted(client: httpx.AsyncClient, clock: FakeClock) -> None:
    await client.put("/v1/config", json=push_body(leaseSeconds=3), headers=WRITE)
    await client.put("/v1/config", json=push_body(token=0), headers=WRITE)
    await client.put("/v1/config", json=push_body(token=0))
    clock.advance(3)

    found = await families(client)

    assert value(found, Name.AGENT_LEASE_LAPSES, "_total") == 1
    assert value(found, Name.AGENT_REFUSED, "_total", reason="StaleToken") == 1
    assert value(found, Name.AGENT_REFUSED, "_total", reason="Unauthorized") == 1
    assert Name.AGENT_LEASE not in found


async def test_every_name_is_one_of_the_vocabulary(client: httpx.AsyncClient) -> None:
    await served(client)

    assert set(await families(client)) <= set(Name)


async def test_names_keep_their_colon_whatever_a_scraper_accepts(client: httpx.AsyncClient) -> None:
    """As OpenMetrics, prometheus_client 0.26 writes vllm_request_success_total."""
    await served(client)

    answer = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})

    assert answer.headers["content-type"].startswith("text/plain")
    assert f"\n{Name.VLLM_REQUESTS}_total{{" in answer.text
