"""The driver, against agents that are an in-memory transport."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from kvtune_lab.clock import ScaledClock
from kvtune_lab.driver import DriverConfig, DriverTally, run_driver
from kvtune_lab.posting import Batch, PostingConfig, Row, cut
from kvtune_lab.traffic import Request

ORIGIN = 1_000_000.0
LATE = ScaledClock(origin_unix_s=ORIGIN, speed=60.0, wall=lambda: ORIGIN + 3600.0)
"""A clock an hour past the origin: nothing is waited for."""

PATIENT = PostingConfig(retry_wall_seconds=30.0)
HASTY = PostingConfig(retry_wall_seconds=0.0)


def config(agents: int = 2, posting: PostingConfig = PATIENT) -> DriverConfig:
    urls = tuple(f"http://agent-{number}" for number in range(agents))
    return DriverConfig(agents=urls, posting=posting, prefill_seconds=100.0, batch_seconds=5.0)


def requests(count: int, *, sessions: int = 6, every_s: float = 1.0) -> Iterator[Request]:
    for number in range(count):
        root = 10 * (number % sessions)
        yield Request(every_s * number, root, root, [1, root, root + 1], 384, 7)


class Agents:
    """Replay agents that keep what they were posted and answer as told."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[dict[str, object]]] = {}
        self.headers: list[str | None] = []
        self.answers: dict[str, list[int | Exception]] = {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        answers = self.answers.get(request.url.host, [])
        answer = answers.pop(0) if len(answers) > 1 else (answers[0] if answers else 200)
        self.headers.append(request.headers.get("authorization"))
        if isinstance(answer, Exception):
            raise answer
        if answer == 200:
            assert (request.method, request.url.path) == ("POST", "/v1/replay")
            self.bodies.setdefault(request.url.host, []).append(json.loads(request.content))
        return httpx.Response(answer, text="what is wrong")

    def rows(self, host: str) -> list[list[object]]:
        found: list[list[object]] = []
        for body in self.bodies.get(host, []):
            rows = body["requests"]
            assert isinstance(rows, list)
            found += rows
        return found

    async def driven(
        self, by: DriverConfig, traffic: Iterator[Request], clock: ScaledClock = LATE
    ) -> DriverTally:
        tally = DriverTally()
        transport = httpx.MockTransport(self.handle)
        await run_driver(by, traffic, clock, asyncio.Event(), tally, transport=transport)
        return tally


async def test_every_request_arrives_once_with_its_session_on_one_agent() -> None:
    agents = Agents()
    tally = await agents.driven(config(), requests(300))
    rows = {host: agents.rows(host) for host in ("agent-0", "agent-1")}
    assert sum(len(each) for each in rows.values()) == 300
    roots = {host: {row[1] for row in each} for host, each in rows.items()}
    assert not roots["agent-0"] & roots["agent-1"]
    assert {len(each) for each in roots.values()} == {3}
    assert tally.source_ended
    assert sum(each.posted_requests for each in tally.agents.values()) == 300


async def test_rows_are_arrival_root_prompt_answer_blocks_in_virtual_unix_seconds() -> None:
    agents = Agents()
    await agents.driven(config(1), requests(1))
    assert agents.rows("agent-0") == [[ORIGIN - 100.0, 0, 384, 7, [1, 0, 1]]]


async def test_until_only_grows_and_covers_every_request_sent_with_it() -> None:
    agents = Agents()
    await agents.driven(config(2), requests(400))
    for bodies in agents.bodies.values():
        promised = float("-inf")
        for body in bodies:
            until, rows = body["until"], body["requests"]
            assert isinstance(until, float)
            assert isinstance(rows, list)
            assert until > promised
            assert all(promised < row[0] <= until for row in rows)
            promised = until


async def test_the_prefill_comes_before_the_origin_in_bounded_posts() -> None:
    agents = Agents()
    small = replace(PATIENT, most_requests_per_post=7)
    tally = await agents.driven(config(1, small), requests(90))
    sizes = [len(body["requests"]) for body in agents.bodies["agent-0"]]  # type: ignore[arg-type]  # a list, checked above
    assert max(sizes) == 7
    assert sum(sizes) == 90
    assert ORIGIN in [body["until"] for body in agents.bodies["agent-0"]]
    assert tally.prefilled.is_set()


async def test_a_restarting_agent_gets_its_batch_again_and_nothing_is_lost() -> None:
    agents = Agents()
    agents.answers["agent-0"] = [httpx.ConnectError("refused"), 503, 200]
    tally = await agents.driven(config(), requests(60))
    assert len(agents.rows("agent-0")) == 30
    assert tally.agents["http://agent-0"].retries == 2
    assert tally.agents["http://agent-0"].skipped_requests == 0


async def test_a_dead_agent_costs_its_own_requests_and_no_other() -> None:
    agents = Agents()
    agents.answers["agent-0"] = [httpx.ConnectError("refused")]
    tally = await agents.driven(config(2, HASTY), requests(200))
    dead, alive = tally.agents["http://agent-0"], tally.agents["http://agent-1"]
    assert (dead.posted_requests, dead.skipped_requests) == (0, 100)
    assert dead.last_refusal == "ConnectError: refused"
    assert (alive.posted_requests, alive.skipped_requests) == (100, 0)


async def test_the_batch_after_a_skipped_one_promises_its_span_too() -> None:
    agents = Agents()
    agents.answers["agent-0"] = [httpx.ConnectError("refused"), 200]
    tally = await agents.driven(config(1, HASTY), requests(150))
    assert [body["until"] for body in agents.bodies["agent-0"]] == [ORIGIN + 100.0]
    tallied = tally.agents["http://agent-0"]
    assert (tallied.posted_requests, tallied.skipped_requests) == (49, 101)


async def test_a_refusal_is_counted_and_not_repeated() -> None:
    agents = Agents()
    agents.answers["agent-0"] = [401]
    tally = await agents.driven(config(1), requests(50))
    refused = tally.agents["http://agent-0"]
    assert (refused.refused_requests, refused.retries) == (50, 0)
    assert refused.last_refusal == "HTTP 401: what is wrong"


async def test_the_token_is_read_from_its_file_and_a_missing_file_is_counted(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    agents = Agents()
    await agents.driven(config(1, replace(HASTY, token_file=token)), requests(3))
    assert set(agents.headers) == {"Bearer secret"}
    tally = await agents.driven(config(1, replace(HASTY, token_file=tmp_path / "none")), requests(3))
    assert "FileNotFoundError" in str(tally.agents["http://agent-0"].last_refusal)


async def test_a_stop_ends_the_driver_in_the_middle_of_an_endless_workload() -> None:
    agents, stop, tally = Agents(), asyncio.Event(), DriverTally()

    def endless() -> Iterator[Request]:
        number = 0
        while True:
            if number == 500:
                stop.set()
            yield Request(float(number), 1, 1, [0, 1], 256, 1)
            number += 1

    transport = httpx.MockTransport(agents.handle)
    await run_driver(config(), endless(), LATE, stop, tally, transport=transport)
    assert not tally.source_ended


async def test_requests_of_the_future_wait_for_their_time() -> None:
    agents, stop, tally = Agents(), asyncio.Event(), DriverTally()
    early = ScaledClock(origin_unix_s=ORIGIN, speed=1.0, wall=lambda: ORIGIN - 3600.0)
    driving = asyncio.create_task(
        run_driver(config(1), requests(500), early, stop, tally, transport=httpx.MockTransport(agents.handle))
    )
    await tally.prefilled.wait()
    stop.set()
    await driving
    assert len(agents.rows("agent-0")) == 101


def test_a_span_is_cut_so_that_each_post_promises_what_was_sent() -> None:
    rows: list[Row] = [(float(n // 2), n, 1, 1, [n]) for n in range(7)]
    batches = list(cut(rows, 9.0, 3))
    assert [[row[1] for row in batch.rows] for batch in batches] == [[0, 1], [2, 3], [4, 5, 6]]
    assert [batch.until for batch in batches] == [0.0, 1.0, 9.0]
    assert list(cut([], 9.0, 3)) == [Batch(until=9.0, rows=[])]


def test_requests_of_one_arrival_stay_together_even_above_the_bound() -> None:
    rows: list[Row] = [(1.0, n, 1, 1, [n]) for n in range(5)]
    assert [batch.until for batch in cut(rows, 9.0, 2)] == [9.0]
    later: list[Row] = [*rows, (2.0, 9, 1, 1, [9])]
    assert [(batch.until, len(batch.rows)) for batch in cut(later, 9.0, 2)] == [(1.0, 5), (9.0, 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": ()}, "agents: none is given"),
        ({"batch_seconds": 0.0}, r"batch_seconds: 0\.0 is not greater than 0"),
        ({"prefill_seconds": -1.0}, r"prefill_seconds: -1\.0 is less than 0"),
    ],
)
def test_a_driver_that_cannot_drive_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(config(), **change)  # type: ignore[arg-type]  # one field at a time, each its own type


def test_posting_without_room_or_time_is_refused() -> None:
    with pytest.raises(ValueError, match="most_batches_waiting: 0 is not greater than 0"):
        PostingConfig(most_batches_waiting=0)
    with pytest.raises(ValueError, match=r"retry_wall_seconds: -1\.0 is less than 0"):
        PostingConfig(retry_wall_seconds=-1.0)
