"""Reports over HTTP, and the replay whose requests they count."""

import asyncio

import httpx
import pytest

from kvtune_agent.agent import Agent
from kvtune_api.codec import parse_json
from kvtune_api.knobs import Knob
from kvtune_api.wire import Report
from tests.agent.fake_clock import ORIGIN
from tests.agent.http_calls import T, refusal_of, requests, turns_until_busy
from tests.agent.samples import WRITE


async def test_a_report_holds_what_a_control_plane_asks(client: httpx.AsyncClient) -> None:
    await client.post("/v1/replay", json=requests(10), headers=WRITE)

    report = parse_json(Report, (await client.get("/v1/report")).content)

    assert (report.agent, report.engine, report.clock) == ("a1", "replay", ORIGIN)
    assert [support.knob for support in report.supports] == list(Knob)
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
