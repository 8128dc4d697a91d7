"""The write token of a namespace's agents: Secret `kvtune-agent-token`, key `token`, filled in when empty.

The Secret must carry the label `kvtune.dev/agent-token`: no other Secret is ever read from or written. A Role
of that namespace gives `get` and `patch` of that one name. Nothing here creates Secrets: who may create them
may have a token of any ServiceAccount of the namespace made for himself.
"""

import base64
import binascii
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN
from kvtune_operator.adapters.agents import WriteToken, one_word
from kvtune_operator.adapters.kube_errors import NotAllowed

Json = dict[str, Any]
KEY = "token"
KEPT_SECONDS = 60.0
REFUSED_SECONDS = 5.0
"""Agents that go on refusing a token do not make us read it more often than this."""

TOKEN_BYTES = 32


class Secrets(Protocol):
    """The part of `kube.Kube` that is used here."""

    async def get(self, path: str) -> Json | None:
        """An object; None when it is not there."""
        ...

    async def patch(self, path: str, operations: Sequence[Json]) -> Json | None:
        """JSON patch; None when it is not there. Raises `Conflict` when a `test` fails."""
        ...


class SecretToken(WriteToken):
    """The token of one namespace, kept for a minute."""

    def __init__(self, kube: Secrets, namespace: str, monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._monotonic = monotonic
        self._kept: tuple[float, str] | None = None

    async def current(self, *, refused: str | None = None) -> str:
        """The token; raise `Unavailable` naming Secret, label, key or right that is lacking.

        A token that is known stays in use while the API server does not answer.
        """
        if self._kept is not None:
            read_at, token = self._kept
            if self._monotonic() - read_at < (REFUSED_SECONDS if token == refused else KEPT_SECONDS):
                return token
        try:
            found = await self._read()
        except NotAllowed as error:
            raise NotAllowed(f"{error}: {self._where} cannot be read; {self._right}") from error
        except Unavailable:
            if self._kept is None:
                raise
            return self._kept[1]
        token = self._token_in(found)
        self._kept = (self._monotonic(), token)
        return token

    @property
    def _where(self) -> str:
        return f"Secret {AGENT_TOKEN_SECRET} of namespace {self._namespace}"

    @property
    def _right(self) -> str:
        return (
            f"the Role for agent tokens (get and patch secrets {AGENT_TOKEN_SECRET}) is needed in namespace "
            f"{self._namespace}"
        )

    async def _read(self) -> Json:
        path = f"/api/v1/namespaces/{self._namespace}/secrets/{AGENT_TOKEN_SECRET}"
        found = await self._kube.get(path)
        if found is None:
            raise Unavailable(f"{self._where}: is not there; examples/agent.yaml holds it, empty")
        if not _is_ours(found) or KEY in (found.get("data") or {}):
            return found
        try:
            filled = await self._kube.patch(path, _filling(found))
        except Conflict:  # another replica, or a person, was first
            filled = await self._kube.get(path)
        if filled is None:
            raise Unavailable(f"{self._where}: was deleted at this moment")
        return filled

    def _token_in(self, found: Json) -> str:
        """The token of a Secret; its label is checked before any byte of it is looked at."""
        if not _is_ours(found):
            raise Unavailable(f"{self._where}: lacks the label {LABEL_AGENT_TOKEN}, so it is not used")
        data = (found.get("data") or {}).get(KEY)
        if data is None:
            raise Unavailable(f"{self._where}: has no key {KEY}")
        try:
            text = base64.b64decode(data, validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError, TypeError) as error:
            raise Unavailable(f"{self._where}: the token is not ASCII text") from error
        return one_word(self._where, text)


def _is_ours(found: Json) -> bool:
    """Whether the Secret carries the label by which it may be used."""
    return LABEL_AGENT_TOKEN in ((found.get("metadata") or {}).get("labels") or {})


def _filling(found: Json) -> list[Json]:
    """A JSON patch that puts a new token into the Secret as it was read."""
    value = base64.b64encode(secrets.token_urlsafe(TOKEN_BYTES).encode()).decode()
    version = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": found["metadata"]["resourceVersion"],
    }
    if found.get("data"):
        return [version, {"op": "add", "path": f"/data/{KEY}", "value": value}]
    return [version, {"op": "add", "path": "/data", "value": {KEY: value}}]
