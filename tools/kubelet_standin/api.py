"""Talk to the API server of a kubeconfig file: JSON in and out, and watches that say when to list again."""

import base64
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml

log = logging.getLogger(__name__)

Object = dict[str, Any]
TIMEOUT_SECONDS = 10.0
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server refused or did not answer; `status` is 0 where there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}" if status else message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API server is and who we are to it."""

    url: str
    ca: bytes | None
    token: str | None
    certificate: bytes | None = None
    key: bytes | None = None
    verified: bool = True

    @property
    def host(self) -> str:
        """Its address, for KUBERNETES_SERVICE_HOST."""
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        """Its port, for KUBERNETES_SERVICE_PORT."""
        return urlsplit(self.url).port or 443

    def tls(self) -> ssl.SSLContext | bool:
        """How the server is verified."""
        if not self.url.startswith("https"):
            return True
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        if not self.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            with tempfile.NamedTemporaryFile() as file:
                file.write(self.certificate + b"\n" + self.key)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def access_of(kubeconfig: Path) -> Access:
    """The current context of a kubeconfig file; raise ValueError naming what it lacks."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    context = _named(config, "contexts", config.get("current-context"))["context"]
    cluster = _named(config, "clusters", context["cluster"])["cluster"]
    user = _named(config, "users", context["user"])["user"]
    folder = kubeconfig.parent
    token = user.get("token")
    if token is None and "tokenFile" in user:
        token = (folder / user["tokenFile"]).read_text(encoding="utf-8").strip()
    return Access(
        url=cluster["server"].rstrip("/"),
        ca=_bytes(cluster, "certificate-authority", folder),
        token=token,
        certificate=_bytes(user, "client-certificate", folder),
        key=_bytes(user, "client-key", folder),
        verified=not cluster.get("insecure-skip-tls-verify", False),
    )


def _named(config: Object, kind: str, name: str | None) -> Object:
    for item in config.get(kind, ()):
        if item["name"] == name:
            return dict(item)
    raise ValueError(f"kubeconfig: {kind} has no {name!r}")


def _bytes(part: Mapping[str, str], name: str, folder: Path) -> bytes | None:
    if f"{name}-data" in part:
        return base64.b64decode(part[f"{name}-data"])
    return (folder / part[name]).read_bytes() if name in part else None


class Api:
    """Calls of one API server. Every call has a timeout; `ApiError` tells what went wrong."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Api":
        headers = {"Authorization": f"Bearer {self.access.token}"} if self.access.token else {}
        connector = aiohttp.TCPConnector(ssl=self.access.tls(), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **query: str) -> Object | None:
        """An object or a list; None where there is none."""
        return await self._found("GET", path, params=query)

    async def create(self, path: str, body: Object) -> Object:
        """Create an object."""
        return await self._call("POST", path, json=body)

    async def merge(self, path: str, body: Object) -> Object | None:
        """Merge a patch into an object; None where there is none."""
        headers = {"Content-Type": MERGE}
        return await self._found("PATCH", path, data=json.dumps(body), headers=headers)

    async def replace(self, path: str, body: Object) -> Object:
        """Replace an object."""
        return await self._call("PUT", path, json=body)

    async def delete(self, path: str, body: Object) -> None:
        """Delete an object if it is there."""
        await self._found("DELETE", path, json=body)

    async def watch(
        self, path: str, resource_version: str, **query: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Events from a version on; ends when the server ends it. Raises `ApiError`, 410 included."""
        wanted = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true", **query}
        timeout = aiohttp.ClientTimeout(sock_connect=TIMEOUT_SECONDS, sock_read=90.0)
        assert self._session is not None
        try:
            async with self._session.get(
                self.access.url + path, params={"timeoutSeconds": "60", **wanted}, timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise ApiError(answer.status, (await answer.text())[:300])
                pending = b""
                async for chunk in answer.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise ApiError(
                                event["object"].get("code", 500), str(event["object"].get("message"))
                            )
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(0, f"{type(error).__name__}: {error}") from error

    async def _found(self, method: str, path: str, **options: Any) -> Object | None:
        try:
            return await self._call(method, path, **options)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _call(self, method: str, path: str, **options: Any) -> Object:
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with self._session.request(
                method, self.access.url + path, timeout=timeout, **options
            ) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(0, f"{method} {path}: {type(error).__name__}: {error}") from error
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}: {_message(text)}")
        return dict(json.loads(text))


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))[:300]
    except ValueError:
        return text[:300]
