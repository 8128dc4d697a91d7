"""A real agent process changes its eviction policy again and again under traffic, and loses nothing by it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from kvtune_api.codec import parse_json
from kvtune_api.knobs import EvictionPolicy
from kvtune_api.names import Metric as Name
from kvtune_api.wire import Counters, Report
from tests.agent.samples import WRITE, push_body
from tests.agent.test_process import running_agent

ORIGIN = 1_700_000_000
CLOCK = ("--origin", str(ORIGIN), "--speed", "600")
SESSIONS, BLOCKS = 64, 12
"""768 blocks in turn: more than the host tier of 512, and than the device of 256."""

PASS = 0.05
"""Share of the host tier that one eviction pass frees."""

FEWEST = 300
"""Requests that each policy serves."""


def turns() -> Iterator[dict[str, object]]:
    """Batches of ten requests in five seconds; a quarter of the sessions is asked for most of the time."""
    for number in count():
        since = ORIGIN + 5 * number
        requests = []
        for i in range(10):
            turn = 10 * number + i
            session = turn * turn % (SESSIONS // 4) if turn % 4 else turn // 4 * 7 % SESSIONS
            blocks = list(range(session * 100, session * 100 + BLOCKS))
            requests.append([since + i / 2, session, 128 * BLOCKS, 10, blocks])
        yield {"until": since + 5, "requests": requests}


@contextmanager
def under_traffic(client: httpx.Client) -> Iterator[list[str]]:
    """Send batches from another thread; the list holds what went wrong."""
    stop, trouble = threading.Event(), []

    def send() -> None:
        with httpx.Client(base_url=client.base_url, timeout=30) as own:
            for batch in turns():
                if stop.is_set():
                    return
                answer = own.post("/v1/replay", json=batch, headers=WRITE)
                if answer.status_code != 200 or answer.json()["errors"]:
                    trouble.append(answer.text)
                    return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield trouble
    finally:
        stop.set()
        sender.join()


def told(client: httpx.Client) -> Report:
    return parse_json(Report, client.get("/v1/report").content)


def after(client: httpx.Client, requests: float, trouble: list[str]) -> Counters:
    """The counters once so many requests were served."""
    while True:
        assert not trouble
        counters = told(client).counters
        if counters is not None and (counters.requests or 0) >= requests:
            return counters


def ask_for(client: httpx.Client, policy: EvictionPolicy, generation: int) -> None:
    small = {"cacheTTL": "600s", "evictionRatio": PASS, "tiers": {"hostMemory": "8Gi"}}
    body = push_body(role="incumbent", generation=generation, config=small | {"evictionPolicy": policy})
    answer = client.put("/v1/config", json=body, headers=WRITE)
    assert answer.status_code == 200, answer.text
    assert answer.json()["config"]["evictionPolicy"] == policy


def metric(client: httpx.Client, name: Name) -> float:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return next(sample.value for f in families for sample in f.samples if sample.name == name)


def resident(client: httpx.Client) -> float:
    """Bytes in the host tier."""
    return metric(client, Name.AGENT_HOST_USED)


def test_every_policy_serves_hits_after_a_switch_under_traffic(tmp_path: Path) -> None:
    order = [*EvictionPolicy, *reversed(EvictionPolicy)]
    shares, kept = {}, []
    with running_agent(tmp_path, *CLOCK) as (_process, client), under_traffic(client) as trouble:
        seen = after(client, FEWEST, trouble)
        for generation, policy in enumerate(order, 2):
            held = resident(client)
            ask_for(client, policy, generation)
            kept.append(resident(client) / held)
            then = after(client, (seen.requests or 0) + FEWEST, trouble)
            assert then.hit_tokens is not None and seen.hit_tokens is not None
            assert then.prompt_tokens is not None and seen.prompt_tokens is not None
            shares[generation, policy] = (then.hit_tokens - seen.hit_tokens) / (
                then.prompt_tokens - seen.prompt_tokens
            )
            seen = then
        last, falls = told(client), metric(client, Name.AGENT_FALLBACK)

    assert min(kept) > 1 - 3 * PASS, "three passes went on meanwhile at most"
    assert min(shares.values()) > 0.4, shares
    assert (last.fallback, falls) == (None, 0)
    assert seen.errors == 0


def test_a_switch_takes_no_block_away(tmp_path: Path) -> None:
    with running_agent(tmp_path, *CLOCK) as (_process, client):
        ask_for(client, EvictionPolicy.LRU, 1)
        batches = turns()
        for generation, policy in enumerate([*EvictionPolicy, *reversed(EvictionPolicy)], 2):
            for _ in range(12):
                assert client.post("/v1/replay", json=next(batches), headers=WRITE).status_code == 200
            held = resident(client)
            ask_for(client, policy, generation)
            assert resident(client) == held > 200 * 16 * 2**20
