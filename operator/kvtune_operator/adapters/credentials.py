"""Credentials for Prometheus and Pyroscope, from a labelled Secret. Nothing of them is ever logged or shown.

A Secret is read by its name alone (never listed), and none of its bytes is used unless it carries the label
kvtune.dev/metrics-credentials: without that rule whoever may write a policy could have any Secret of the
namespace sent to an address of theirs.
"""

import base64
import binascii
import re
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import quote

from kvtune_api.errors import Unavailable
from kvtune_api.names import LABEL_METRICS_CREDENTIALS

KEPT_SECONDS: Final = 60.0
HEADER: Final = "header."
FOLDER: Final = "kvtune-pem-"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_RESERVED = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """What a request carries beside its question."""

    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Authorization included."""

    ca: str | None = None
    """PEM of the authorities to trust in place of the system's."""

    certificate: str | None = None
    key: str | None = None
    """PEM of a client certificate and its key."""

    def __repr__(self) -> str:
        return "Credentials(...)"


Provider = Callable[[], Awaitable[Credentials | None]]
"""Gives the credentials of the moment; raises `Unavailable` where there should be some and are none."""


async def no_credentials() -> Credentials | None:
    """Nothing is needed."""
    return None


class Secrets(Protocol):
    """The part of `Kube` that is used."""

    async def get(self, path: str, **query: str | int | bool) -> dict[str, Any] | None:
        """An object; None when it is not there."""
        ...


class SecretCredentials:
    """Read credentials from one Secret, again after 60 s."""

    def __init__(
        self, kube: Secrets, namespace: str, name: str, *, field: str, monotonic: Callable[[], float]
    ) -> None:
        """`field` is the path by which a user knows the Secret, such as spec.metrics.prometheus.secret."""
        self._kube = kube
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(name, safe='')}"
        self._what = f"{field}: Secret {namespace}/{name}"
        self._namespace = namespace
        self._monotonic = monotonic
        self._held: tuple[float, Credentials] | None = None

    async def __call__(self) -> Credentials | None:
        """The credentials; raise `Unavailable` with field path, Secret and key."""
        now = self._monotonic()
        if self._held is None or now - self._held[0] >= KEPT_SECONDS:
            self._held = None
            self._held = (now, _parsed(await self._read(), self._what))
        return self._held[1]

    async def _read(self) -> dict[str, Any]:
        try:
            found = await self._kube.get(self._path)
        except Unavailable as error:
            role = f" (a Role in namespace {self._namespace} must allow the operator to get this Secret)"
            hint = role if "may not" in str(error) else ""
            raise Unavailable(f"{self._what}: {error}{hint}") from error
        if found is None:
            raise Unavailable(f"{self._what} does not exist")
        labels = (found.get("metadata") or {}).get("labels") or {}
        if LABEL_METRICS_CREDENTIALS not in labels:
            raise Unavailable(f"{self._what} lacks the label {LABEL_METRICS_CREDENTIALS}: it is not used")
        return found


def _parsed(secret: Mapping[str, Any], what: str) -> Credentials:
    data = secret.get("data") or {}

    def text(key: str) -> str | None:
        if key not in data:
            return None
        try:
            return base64.b64decode(str(data[key]), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise Unavailable(f"{what}, key {key}: is not text") from None

    headers = _headers(data, text, what) | _authorization(text, what)
    certificate, key = text("tls.crt"), text("tls.key")
    if (certificate is None) != (key is None):
        lacking = "tls.key" if key is None else "tls.crt"
        raise Unavailable(f"{what}, key {lacking}: is needed beside the other of tls.crt and tls.key")
    found = Credentials(
        headers=MappingProxyType(headers), ca=text("ca.crt"), certificate=certificate, key=key
    )
    if not headers and found.ca is None and certificate is None:
        known = "token; username and password; ca.crt; tls.crt and tls.key; header.NAME"
        raise Unavailable(f"{what} has none of the keys that are used: {known}")
    tls_context(found, what)
    return found


def _authorization(text: Callable[[str], str | None], what: str) -> dict[str, str]:
    token, username, password = text("token"), text("username"), text("password")
    if token is not None and (username is not None or password is not None):
        raise Unavailable(f"{what}, key token: is not used together with username and password")
    if token is not None:
        return {"Authorization": f"Bearer {_sent(token.strip(), f'{what}, key token')}"}
    if username is None and password is None:
        return {}
    if username is None or password is None:
        lacking = "username" if username is None else "password"
        raise Unavailable(f"{what}, key {lacking}: is needed beside the other of username and password")
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def _headers(data: Mapping[str, Any], text: Callable[[str], str | None], what: str) -> dict[str, str]:
    found = {}
    for key in sorted(key for key in data if key.startswith(HEADER)):
        name = key.removeprefix(HEADER)
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise Unavailable(f"{what}, key {key}: is not a header that can be set")
        found[name] = _sent((text(key) or "").strip(), f"{what}, key {key}")
    return found


def _sent(value: str, where: str) -> str:
    if not value or not value.isascii() or not value.isprintable():
        raise Unavailable(f"{where}: must be one line of printable ASCII")
    return value


def tls_context(credentials: Credentials | None, what: str = "TLS") -> ssl.SSLContext:
    """A verifying context of the credentials; raise `Unavailable` naming the key that is no PEM.

    OpenSSL takes a client certificate from files only: they are private and gone when this returns.
    """
    if credentials is None or credentials.ca is None:
        context = ssl.create_default_context()
    else:
        try:
            context = ssl.create_default_context(cadata=credentials.ca)
        except (ssl.SSLError, ValueError):
            raise Unavailable(f"{what}, key ca.crt: holds no PEM certificate") from None
    if credentials is not None and credentials.certificate is not None and credentials.key is not None:
        with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_text(f"{credentials.key}\n{credentials.certificate}\n", encoding="utf-8")
            try:
                context.load_cert_chain(pair, password="")
            except (ssl.SSLError, OSError, ValueError):
                raise Unavailable(
                    f"{what}, keys tls.crt and tls.key: no PEM certificate with its key"
                ) from None
    return context
