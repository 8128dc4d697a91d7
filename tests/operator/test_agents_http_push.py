"""Pushes to agents over HTTP: what becomes of the answers, and who is sent the token."""

import json
from pathlib import Path

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.agents import HttpAgents, TokenFile, exposes_token
from kvtune_operator.adapters.fetch import Fetcher
from kvtune_operator.ports import Accepted, Refused, Unreachable
from tests.fakes.samples import push
from tests.fakes.servers import answering, hearing, refusal
from tests.operator.agent_answers import RUNNING


@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [
        (RUNNING, 200, Accepted()),
        (refusal("StaleToken", "held 9"), 409, Refused(status=409, reason="StaleToken", message="held 9")),
        (refusal("Unauthorized"), 401, Refused(status=401, reason="Unauthorized", message="because")),
        (b"not found", 404, Refused(status=404, reason="Unknown", message="HTTP 404 not found")),
        (refusal("BodyTooSlow"), 408, Unreachable(message="HTTP 408 BodyTooSlow")),
        (b"slow down", 429, Unreachable(message="HTTP 429 slow down")),
        (refusal("TokenUnavailable"), 503, Unreachable(message="HTTP 503 TokenUnavailable")),
        (b"<html>", 200, Unreachable(message="is not what an agent answers")),
        (b"", 302, Unreachable(message="HTTP 302")),
    ],
)
async def test_answers_to_a_push(
    agents: HttpAgents, body: bytes, status: int, answer: Accepted | Refused | Unreachable
) -> None:
    async with answering(body, status=status) as address:
        got = (await agents.push({address: push()}))[address]

    assert type(got) is type(answer)
    if isinstance(answer, Refused) and isinstance(got, Refused):
        assert (got.status, got.reason) == (answer.status, answer.reason)
    if not isinstance(answer, Accepted) and not isinstance(got, Accepted):
        assert answer.message in got.message
        assert f"PUT {address}/v1/config" in got.message


class Heard:
    """An agent that takes every push with one token and keeps what it was asked."""

    def __init__(self, token: str = "correct-horse") -> None:
        self.token = token
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, head: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Answer a push."""
        self.heads.append(head)
        self.bodies.append(body)
        if head["authorization"] != f"Bearer {self.token}":
            return 401, refusal("Unauthorized")
        return 200, RUNNING

    @property
    def tokens(self) -> list[str]:
        """The tokens that it was sent."""
        return [head["authorization"].removeprefix("Bearer ") for head in self.heads]


async def test_the_push_carries_the_token_and_the_whole_body(agents: HttpAgents) -> None:
    heard = Heard()
    async with hearing(heard) as address:
        answers = await agents.push({address: push()})

    assert answers == {address: Accepted()}
    assert heard.tokens == ["correct-horse"]
    assert heard.heads[0]["accept-encoding"] == "identity"
    assert "user-agent" not in heard.heads[0]
    assert json.loads(heard.bodies[0])["policyUID"] == "uid-1"


async def test_a_new_token_is_used_at_once(agents: HttpAgents, token: Path) -> None:
    def renew() -> None:
        token.write_text("battery-staple")

    heard = Heard()
    async with hearing(heard) as address:
        await agents.push({address: push()})
        renew()
        await agents.push({address: push()})

    assert heard.tokens == ["correct-horse", "battery-staple"]


class Rotated:
    """A token that is another one when it is read anew."""

    def __init__(self) -> None:
        self.refused: list[str | None] = []

    async def current(self, *, refused: str | None = None) -> str:
        """The old one until it is refused."""
        self.refused.append(refused)
        return "old" if refused is None else "new"


async def test_a_refused_token_is_read_anew_and_sent_once_more_to_who_refused_it(fetcher: Fetcher) -> None:
    newer, older, token = Heard("new"), Heard("old"), Rotated()
    async with hearing(newer) as first, hearing(older) as second:
        answers = await HttpAgents(fetcher, token).push({first: push(), second: push()})

    assert answers == {first: Accepted(), second: Accepted()}
    assert newer.tokens == ["old", "new"]
    assert older.tokens == ["old"]
    assert token.refused == [None, "old"]


async def test_a_token_that_is_refused_again_is_not_sent_for_ever(agents: HttpAgents) -> None:
    heard = Heard("another")
    async with hearing(heard) as address:
        answer = (await agents.push({address: push()}))[address]

    assert isinstance(answer, Refused)
    assert answer.status == 401
    assert heard.tokens == ["correct-horse"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        ("", "is empty"),
        (" \n", "is empty"),
        ("a b", "one word"),
        ("gehäim", "not ASCII"),
        ("a\nb", "one word"),
    ],
)
async def test_without_a_usable_token_nothing_is_sent(
    fetcher: Fetcher, tmp_path: Path, content: str | None, says: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    agents = HttpAgents(fetcher, TokenFile(path))

    with pytest.raises(Unavailable) as refused:
        await agents.push({"http://127.0.0.1:1": push()})

    assert says in str(refused.value)
    assert str(path) in str(refused.value)
    assert "a b" not in str(refused.value).replace(str(path), "")


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("http://127.0.0.1:9000", False),
        ("http://[::1]:9000", False),
        ("http://localhost:9000", False),
        ("https://10.0.0.1:9000", False),
        ("http://10.0.0.1:9000", True),
        ("http://agent.example:9000", True),
        ("http://localhost.example:9000", True),
    ],
)
def test_a_token_is_exposed_by_plain_http_beyond_this_machine(address: str, exposed: bool) -> None:
    assert (exposes_token(address) is not None) is exposed


async def test_an_exposed_token_is_not_sent_unless_told_so(fetcher: Fetcher, token: Path) -> None:
    heard = Heard()
    async with hearing(heard) as address:
        exposed = address.replace("127.0.0.1", "0.0.0.0")
        careful = HttpAgents(fetcher, TokenFile(token))
        refused = (await careful.push({exposed: push()}))[exposed]
        careless = HttpAgents(fetcher, TokenFile(token), address_of=lambda name: address, insecure=True)
        sent = (await careless.push({"a": push()}))["a"]

    assert isinstance(refused, Unreachable)
    assert "plain http" in refused.message
    assert sent == Accepted()
    assert len(heard.heads) == 1
