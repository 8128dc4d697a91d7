"""The write token of a namespace: read by name, checked by label, made when absent, kept for a minute."""

import base64
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvtune_api.errors import Conflict, KvtuneError, Unavailable
from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN
from kvtune_operator.adapters.agent_token import KEPT_SECONDS, SecretToken
from kvtune_operator.adapters.kube_errors import NotAllowed
from tests.fakes.nodes_and_pods import Hours

Json = dict[str, Any]
PATH = f"/api/v1/namespaces/x/secrets/{AGENT_TOKEN_SECRET}"
LABELS = {LABEL_AGENT_TOKEN: "true"}


def secret(token: str | bytes = "correct-horse", *, labels: Json | None = None, key: str = "token") -> Json:
    data = token.encode() if isinstance(token, str) else token
    return {
        "metadata": {"labels": LABELS if labels is None else labels},
        "data": {key: base64.b64encode(data).decode()},
    }


@dataclass(slots=True)
class Server:
    """An API server with one Secret, or none."""

    found: Json | None = None
    get_error: KvtuneError | None = None
    create_error: KvtuneError | None = None
    made_by_another: Json | None = None
    calls: list[str] = field(default_factory=list)

    async def get(self, path: str) -> Json | None:
        """The Secret."""
        assert path == PATH
        self.calls.append("get")
        if self.get_error:
            raise self.get_error
        return self.found

    async def create(self, path: str, body: Json) -> Json:
        """Make the Secret, as a server does: stringData becomes data."""
        assert path == PATH.rpartition("/")[0]
        self.calls.append("create")
        if self.create_error:
            self.found = self.made_by_another
            raise self.create_error
        self.found = secret(body["stringData"]["token"], labels=body["metadata"]["labels"])
        return self.found


@dataclass(slots=True)
class World:
    """A token over a server."""

    server: Server
    hours: Hours = field(default_factory=Hours)

    def token(self) -> SecretToken:
        """A reader that knows nothing yet."""
        return SecretToken(self.server, "x", self.hours.monotonic)


async def test_the_token_is_read_once_a_minute() -> None:
    world = World(Server(secret("correct-horse\n")))
    token = world.token()

    assert [await token.current(), await token.current()] == ["correct-horse"] * 2
    assert world.server.calls == ["get"]
    world.server.found = secret("battery-staple")
    world.hours.seconds += KEPT_SECONDS
    assert await token.current() == "battery-staple"


async def test_a_refused_token_is_read_anew_but_not_in_a_hurry() -> None:
    world = World(Server(secret("old")))
    token = world.token()
    await token.current()
    world.server.found = secret("new")

    assert await token.current(refused="old") == "old", "it was read just now"
    world.hours.seconds += 6
    assert await token.current(refused="old") == "new"
    assert await token.current(refused="old") == "new", "another one was refused"
    assert world.server.calls == ["get", "get"]


async def test_a_secret_is_made_where_there_is_none() -> None:
    world = World(Server())

    made = await world.token().current()

    assert len(made) >= 43
    assert made.isascii()
    assert await world.token().current() == made
    assert world.server.found is not None
    assert world.server.found["metadata"]["labels"] == LABELS
    assert world.server.calls == ["get", "create", "get"]


async def test_two_tokens_are_never_alike() -> None:
    assert await World(Server()).token().current() != await World(Server()).token().current()


async def test_another_one_who_made_it_first_wins() -> None:
    server = Server(create_error=Conflict("exists"), made_by_another=secret("theirs"))

    assert await World(server).token().current() == "theirs"


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (Server(secret(labels={})), f"lacks the label {LABEL_AGENT_TOKEN}"),
        (Server({"metadata": {}, "data": {}}), f"lacks the label {LABEL_AGENT_TOKEN}"),
        (Server(secret(key="password")), "has no key token"),
        (Server({"metadata": {"labels": LABELS}}), "has no key token"),
        (Server(secret("")), "is empty"),
        (Server(secret("two words")), "one word"),
        (Server(secret(b"\xff\xfe")), "not ASCII"),
        (
            Server(get_error=NotAllowed("may not get secrets in namespace x")),
            "Secret kvtune-agent-token of namespace x cannot be read; the Role for agent tokens",
        ),
        (
            Server(create_error=NotAllowed("may not create secrets in namespace x")),
            "may not create secrets in namespace x",
        ),
        (Server(get_error=Unavailable("no answer")), "no answer"),
        (Server(create_error=Conflict("exists")), "made and deleted again"),
    ],
)
async def test_what_is_lacking_is_told_and_never_the_token(server: Server, says: str) -> None:
    with pytest.raises(Unavailable) as told:
        await World(server).token().current()

    assert says in str(told.value)
    assert "correct-horse" not in str(told.value)
    assert "two words" not in str(told.value)


async def test_a_known_token_stays_in_use_while_the_api_server_is_away() -> None:
    world = World(Server(secret()))
    token = world.token()
    await token.current()
    world.hours.seconds += 1000

    world.server.get_error = Unavailable("no answer")
    assert await token.current() == "correct-horse"
    world.server.get_error = NotAllowed("may not get secrets in namespace x")
    with pytest.raises(NotAllowed):
        await token.current()
