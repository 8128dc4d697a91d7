"""A Prometheus that is down, slow, wrong or lying: one clear message, one timeout."""

import asyncio
import contextlib
import datetime
import json
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.clock import WallClock
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.servers import answering, dripping, raw_server, stuck
from tests.operator.prometheus_asked import EMPTY, SECRET, metrics_at, newest, trouble

PORT_NOBODY_LISTENS_ON = 1


def matrix(values: list[Any], **labels: str) -> bytes:
    series = [{"metric": {"pod": "chat-1", **labels}, "values": values}]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode()


async def test_nobody_listens() -> None:
    message = await trouble(metrics_at(f"http://127.0.0.1:{PORT_NOBODY_LISTENS_ON}"))

    assert message.startswith("POST http://127.0.0.1:1/api/v1/query: connection refused")


ANSWERS = {
    "a web page": (200, b"<html>login</html>", "text/html", "HTTP 200 (text/html) is not what a Prometheus"),
    "not the API": (404, b"404 page not found", "text/plain", "HTTP 404 404 page not found"),
    "not JSON": (200, b"{", "application/json", "HTTP 200 is not what a Prometheus answers"),
    "another JSON": (200, b'{"status":"success","data":[]}', "application/json", "not what a Prometheus"),
    "a scalar": (
        200,
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        "application/json",
        "no vector",
    ),
    "no credentials": (401, b"", "text/plain", "HTTP 401 (credentials are needed or wrong)"),
    "forbidden": (403, b"tenant", "text/plain", "HTTP 403 (the credentials may not do this) tenant"),
    "a query it cannot run": (
        422,
        b'{"status":"error","errorType":"execution","error":"too many samples"}',
        "application/json",
        "HTTP 422 too many samples",
    ),
    "overloaded": (503, b"busy", "text/plain", "HTTP 503 busy"),
    "moved": (302, b"", "text/plain", "HTTP 302, redirects are not followed"),
    "partial": (
        200,
        json.dumps({**EMPTY, "warnings": ["store s3 is down"]}).encode(),
        "application/json",
        "the answer is only partial: store s3 is down",
    ),
}


@pytest.mark.parametrize("case", sorted(ANSWERS))
async def test_an_answer_that_is_none_is_unavailable_with_address_status_and_reason(case: str) -> None:
    status, body, kind, expected = ANSWERS[case]
    async with answering(body, status=status, content_type=kind) as address:
        message = await trouble(metrics_at(address))

    assert expected in message
    assert len(message) < 500


SAID = b"swordfish-7 is what it says"
UNQUOTED = {
    "a page": (200, SAID, "text/html", "HTTP 200 (text/html) is not what a Prometheus answers"),
    "an error": (500, SAID, "text/plain", "HTTP 500 (text/plain)"),
    "no type": (500, SAID, "", "HTTP 500"),
    "a refusal": (403, SAID, "text/plain", "HTTP 403 (the credentials may not do this) (text/plain)"),
    "an error of a Prometheus": (
        400,
        json.dumps({"status": "error", "errorType": "bad_data", "error": SAID.decode()}).encode(),
        "application/json",
        "HTTP 400 bad_data (application/json)",
    ),
    "an error of another kind": (
        400,
        json.dumps({"status": "error", "errorType": SAID.decode(), "error": SAID.decode()}).encode(),
        "application/json",
        "HTTP 400 (application/json)",
    ),
    "partial": (
        200,
        json.dumps({**EMPTY, "warnings": [SAID.decode()]}).encode(),
        "application/json",
        "the answer is only partial",
    ),
}


@pytest.mark.parametrize("case", sorted(UNQUOTED))
async def test_without_quotes_an_answer_is_told_by_status_and_content_type_only(case: str) -> None:
    status, body, kind, expected = UNQUOTED[case]
    async with answering(body, status=status, content_type=kind) as address:
        message = await trouble(metrics_at(address, quotes=False))

    assert expected in message
    assert SECRET not in message


@pytest.mark.parametrize("quotes", [True, False])
async def test_what_speaks_no_http_is_quoted_at_the_operators_address_only(quotes: bool) -> None:
    async def say(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(f"SSH-2.0-{SECRET}\r\n".encode())

    async with raw_server(say) as address:
        message = await trouble(metrics_at(address, quotes=quotes))

    assert "no HTTP answer" in message
    assert (SECRET in message) is quotes


@pytest.mark.parametrize("server", [stuck, dripping])
async def test_a_slow_one_costs_one_timeout_whatever_is_asked(
    server: Callable[[], contextlib.AbstractAsyncContextManager[str]],
) -> None:
    clock = WallClock()
    async with server() as address:
        metrics = metrics_at(address, timeout="400ms")
        begun = clock.monotonic()
        message = await trouble(metrics)
        took = clock.monotonic() - begun
        for _ in range(20):
            with pytest.raises(Unavailable, match="answer within"):
                await metrics.counters_at(["chat-1"], clock.now().timestamp() - 100)
        again = clock.monotonic() - begun - took

    assert "answer within 0.4 s" in message
    assert again < took, "what failed once is not asked again in the same tick"


async def test_after_a_failure_the_next_tick_asks_again() -> None:
    async with answering(b"busy", status=503) as address:
        metrics = metrics_at(address)
        await trouble(metrics)
        await trouble(metrics)


async def test_an_empty_vector_is_no_data() -> None:
    async with answering(json.dumps(EMPTY).encode()) as address:
        found = await newest(metrics_at(address))

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "many"])
async def test_no_number_is_missing(value: str) -> None:
    at = WallClock().now().timestamp() - 6
    async with answering(matrix([[at, value]], __name__="vllm:prompt_tokens_total")) as address:
        found = await newest(metrics_at(address))

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NAN


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"success","data":{"result":[{}]}}',
        matrix([]),
        matrix([[1, "1"]]),
        matrix([[1], 2, ["x", "1"]]),
    ],
)
async def test_series_that_say_nothing_are_no_data(body: bytes) -> None:
    async with answering(body) as address:
        found = await newest(metrics_at(address))

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


@pytest.mark.parametrize(("seconds", "how"), [(120, "ahead of"), (-120, "behind")])
async def test_another_clock_than_ours_is_named(seconds: int, how: str) -> None:
    there = WallClock().now() + datetime.timedelta(seconds=seconds)
    date = f"Date: {format_datetime(there, usegmt=True)}\r\n"
    async with answering(json.dumps(EMPTY).encode(), extra=date) as address:
        message = await trouble(metrics_at(address))

    assert f"s {how} this machine's" in message
