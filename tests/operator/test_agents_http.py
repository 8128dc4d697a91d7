"""Agents that answer nonsense, slowly, too much or not at all: one of them never hides the others."""

import asyncio
import contextlib
import gzip
from pathlib import Path

import pytest

from kvtune_api.wire import Report
from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.fetch import REPORT_BYTES, SHARED, Answer, Fetcher, fetching
from kvtune_operator.ports import Unreachable
from tests.fakes.samples import policy, push
from tests.fakes.servers import answering, dripping, raw_server, refusal, stuck
from tests.operator.agent_answers import REPORT, report


async def ask(agents: HttpAgents, address: str) -> str:
    """The trouble of one agent, asked beside a good one that must not suffer."""
    async with answering(REPORT) as good:
        reports = await agents.reports([address, good])
    assert isinstance(reports[good], Report)
    bad = reports[address]
    assert isinstance(bad, Unreachable), bad
    return bad.message


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        (b"<html>login</html>", 200, "text/html", "HTTP 200 (text/html) is not what an agent answers"),
        (b"", 200, "application/json", "is not what an agent answers"),
        (b"{", 200, "application/json", "is not what an agent answers"),
        (b"null", 200, "application/json", "is not what an agent answers"),
        (b"\xff\xfe", 200, "application/json", "is not what an agent answers"),
        (REPORT.replace(b'"version"', b'"flavour"'), 200, "application/json", "version: is required"),
        (REPORT.replace(b'"clock":', b'"clock":NaN,"x":'), 200, "application/json", "HTTP 200"),
        (b"oops", 500, "text/plain", "HTTP 500 oops"),
        (
            refusal("StateUnavailable", "disk full"),
            503,
            "application/json",
            "HTTP 503 StateUnavailable: disk full",
        ),
        (b"moved", 302, "text/plain", "HTTP 302"),
        (b"who are you", 404, "text/plain", "HTTP 404 who are you"),
        (b"x" * (REPORT_BYTES + 1), 200, "application/json", f"more than {REPORT_BYTES} bytes"),
    ],
)
async def test_an_answer_that_is_no_report_is_told_with_url_and_status(
    agents: HttpAgents, body: bytes, status: int, kind: str, says: str
) -> None:
    async with answering(body, status=status, content_type=kind) as address:
        message = await ask(agents, address)

    assert f"GET {address}/v1/report: " in message
    assert says in message
    assert len(message) < 400


async def test_a_redirect_is_not_followed(agents: HttpAgents) -> None:
    async with answering(REPORT) as target:
        location = f"Location: {target}/v1/report\r\n"
        async with answering(b"", status=307, extra=location) as address:
            assert "HTTP 307" in await ask(agents, address)


async def test_a_compressed_answer_is_refused(agents: HttpAgents) -> None:
    async with answering(gzip.compress(REPORT), extra="Content-Encoding: gzip\r\n") as address:
        assert "compressed answers are refused" in await ask(agents, address)


async def test_an_agent_that_speaks_no_http_is_unreachable(agents: HttpAgents) -> None:
    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with raw_server(say) as address:
        assert "not an HTTP answer" in await ask(agents, address)


async def test_an_agent_that_hangs_up_is_unreachable(agents: HttpAgents) -> None:
    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        return

    async with raw_server(say) as address:
        assert address in await ask(agents, address)


async def test_a_refused_connection_is_unreachable(agents: HttpAgents) -> None:
    assert "cannot connect" in await ask(agents, "http://127.0.0.1:1")


async def test_an_address_that_is_none_is_unreachable(agents: HttpAgents) -> None:
    assert "http://[::bad" in await ask(agents, "http://[::bad")


async def test_an_agent_that_never_answers_ends_with_the_timeout(token: Path) -> None:
    async with fetching(timeout_seconds=0.05) as fetcher, stuck() as address:
        quick = HttpAgents(fetcher, TokenFile(token))
        answer = (await quick.reports([address]))[address]

    assert isinstance(answer, Unreachable)
    assert "no whole answer within 0.05 s" in answer.message


async def test_an_answer_that_drips_ends_with_the_timeout(token: Path) -> None:
    async with fetching(timeout_seconds=0.2) as fetcher, dripping() as address:
        quick = HttpAgents(fetcher, TokenFile(token))
        answer = (await quick.reports([address]))[address]

    assert isinstance(answer, Unreachable)
    assert "no whole answer within 0.2 s" in answer.message


async def test_two_addresses_of_one_agent_count_once(agents: HttpAgents) -> None:
    async with answering(REPORT) as first, answering(REPORT) as second:
        reports = await agents.reports([first, second])

    twin = reports[second]
    assert isinstance(reports[first], Report)
    assert isinstance(twin, Unreachable)
    assert f"is the same agent as {first}" in twin.message


async def test_the_same_name_asked_twice_is_asked_once(agents: HttpAgents) -> None:
    async with answering(REPORT) as address:
        assert isinstance((await agents.reports([address, address]))[address], Report)


async def test_given_addresses_are_used_in_place_of_the_selectors(fetcher: Fetcher, token: Path) -> None:
    given = HttpAgents(fetcher, TokenFile(token), addresses=("http://B:2/", "http://a:1"))

    found = await given.discover(policy(selector={"addresses": ["http://c:3"]}))

    assert found.agents == ("http://a:1", "http://b:2")


async def test_an_agent_with_a_name_is_asked_where_it_is(fetcher: Fetcher, token: Path) -> None:
    async with answering(REPORT) as address:
        named = HttpAgents(fetcher, TokenFile(token), address_of=lambda name: address)
        name = report().agent
        found = await named.reports([name])

    assert found == {name: report()}


async def test_another_agent_at_the_address_is_not_taken_for_the_one_asked(
    fetcher: Fetcher, token: Path
) -> None:
    async with answering(REPORT) as address:
        named = HttpAgents(fetcher, TokenFile(token), address_of=lambda name: address)
        found = (await named.reports(["cache-7"]))["cache-7"]

    assert isinstance(found, Unreachable)
    assert f"another agent, {report().agent}, answers there, not cache-7" in found.message


async def test_an_agent_that_is_nowhere_is_unreachable_and_sent_nothing(
    fetcher: Fetcher, token: Path
) -> None:
    nowhere = Unreachable(message="pod cache-7: Pending, it has no address yet")
    named = HttpAgents(fetcher, TokenFile(token), address_of=lambda name: nowhere)

    assert await named.reports(["cache-7"]) == {"cache-7": nowhere}
    assert await named.push({"cache-7": push()}) == {"cache-7": nowhere}


async def test_at_most_so_many_agents_are_asked_at_once() -> None:
    busy, most = 0, 0

    async def respond(agent: str) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(3):
            await asyncio.sleep(0)
        busy -= 1

    async with fetching(parallel=4) as fetcher:
        answers = await fetcher.for_each([f"a{number}" for number in range(40)], respond)

    assert len(answers) == 40
    assert most == 4


async def test_callers_that_ask_at_the_same_time_share_a_bound_and_each_has_a_floor_of_one() -> None:
    busy, most = 0, 0
    full = SHARED * 4 + 6
    """Two callers hold four each, which is the bound, and six hold their floor."""
    bound, go = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal busy, most
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                busy += 1
                most = max(most, busy)
                if busy == full:
                    bound.set()
                await go.wait()
                busy -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        async with fetching(parallel=4, timeout_seconds=60) as fetcher:

            async def ask(agent: str) -> Answer | Unreachable:
                return await fetcher.get(f"http://127.0.0.1:{port}/{agent}", limit_bytes=9, accept="*/*")

            callers = [asyncio.ensure_future(fetcher.for_each("abcdefghij", ask)) for _ in range(8)]
            await bound.wait()
            for _ in range(200):
                await asyncio.sleep(0)
            go.set()
            answers = await asyncio.gather(*callers)

    assert [len(answer) for answer in answers] == [10] * 8
    assert most == full
