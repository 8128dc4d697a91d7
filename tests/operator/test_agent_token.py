"""The write token of a namespace: read by name, checked by label, filled in when empty, kept for a minute."""

import base64
from collections.abc import Sequence
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
        "metadata": {"labels": LABELS if labels is None else labels, "resourceVersion": "7"},
        "data": {key: base64.b64encode(data).decode()},
    }


EMPTY: Json = {"metadata": {"labels": LABELS, "resourceVersion": "7"}}


@dataclass(slots=True)
class Server:
    """An API server with one Secret, or none."""

    found: Json | None = None
    get_error: KvtuneError | None = None
    patch_error: KvtuneError | None = None
    filled_by_another: Json | None = None
    calls: list[str] = field(default_factory=list)

    async def get(self, path: str) -> Json | None:
        """The Secret."""
        assert path == PATH
        self.calls.append("get")
        if self.get_error:
            raise self.get_error
        return self.found

    async def patch(self, path: str, operations: Sequence[Json]) -> Json | None:
        """Fill the Secret, as a server does."""
        assert path == PATH
        self.calls.append("patch")
        if self.patch_error:
            self.found = self.filled_by_another
            raise self.patch_error
        test, add = operations
        assert self.found is not None
        assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
        added = add["value"] if add["path"] == "/data" else {"token": add["value"]}
        self.found = {**self.found, "data": {**(self.found.get("data") or {}), **added}}
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


@pytest.mark.parametrize("held", [EMPTY, {**EMPTY, "data": None}, {**EMPTY, "data": {"other": "eA=="}}])
async def test_a_secret_without_a_token_is_given_one_and_keeps_the_rest(held: Json) -> None:
    world = World(Server(held))

    made = await world.token().current()

    assert len(made) >= 43
    assert made.isascii()
    assert await world.token().current() == made
    assert world.server.found is not None
    assert (held.get("data") or {}).items() <= world.server.found["data"].items()
    assert world.server.calls == ["get", "patch", "get"]


async def test_two_tokens_are_never_alike() -> None:
    assert await World(Server(EMPTY)).token().current() != await World(Server(EMPTY)).token().current()


async def test_another_one_who_filled_it_first_wins() -> None:
    server = Server(EMPTY, patch_error=Conflict("changed"), filled_by_another=secret("theirs"))

    assert await World(server).token().current() == "theirs"


async def test_a_secret_without_the_label_is_never_written() -> None:
    server = Server({"metadata": {"resourceVersion": "7"}})
    with pytest.raises(Unavailable, match="lacks the label"):
        await World(server).token().current()

    assert server.calls == ["get"]


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (Server(secret(labels={})), f"lacks the label {LABEL_AGENT_TOKEN}"),
        (Server({"metadata": {}, "data": {}}), f"lacks the label {LABEL_AGENT_TOKEN}"),
        (Server(), "is not there"),
        (Server(secret("")), "is empty"),
        (Server(secret("two words")), "one word"),
        (Server(secret(b"\xff\xfe")), "not ASCII"),
        (
            Server(get_error=NotAllowed("may not get secrets in namespace x")),
            "Secret kvtune-agent-token of namespace x cannot be read; the Role for agent tokens",
        ),
        (
            Server(EMPTY, patch_error=NotAllowed("may not patch secrets in namespace x")),
            "may not patch secrets in namespace x",
        ),
        (Server(get_error=Unavailable("no answer")), "no answer"),
        (Server(EMPTY, patch_error=Conflict("changed")), "was deleted at this moment"),
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
