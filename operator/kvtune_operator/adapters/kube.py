"""Calls to a Kubernetes API server as plain JSON: bounded in time and size, and never redirected.

Over the connection and the credentials of `kubernetes.aio`, without its models. Used by the adapters of
policies, experiments, events, leases, pods and nodes. What fails is told as in kube_errors.py; headers are
never logged.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException

from kvtune_api.errors import Conflict, KvtuneError, Problem, SpecError, Unavailable
from kvtune_operator.adapters.kube_answers import Json, change, json_object, lines, whole
from kvtune_operator.adapters.kube_credentials import configuration_of
from kvtune_operator.adapters.kube_errors import Absent, Deed, Gone, Overloaded, Rejected, deed, failure

Query = str | int | bool
T = TypeVar("T")

CONNECT_SECONDS = 5.0
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

BACK_OFF_SECONDS = 1.0
"""After 429 without a Retry-After."""

LIST_PAGE = 500
LIST_ATTEMPTS = 3

_UNTOLD = "due to an error in our request"
"""All that the API server (tried: 1.36) says when a `test`, or a path, of a JSON patch does not hold."""


class Kube:
    """Talk to one API server. Paths are whole (`/api/v1/namespaces/x/pods`), queries in the API's words."""

    def __init__(
        self,
        api: ApiClient,
        *,
        timeout_seconds: float = 10.0,
        on_call: Callable[[str, str], None] = lambda verb, resource: None,
    ) -> None:
        """`on_call` is told verb and resource of every call (`list`, `pods`)."""
        self._api = api
        self._timeout_seconds = timeout_seconds
        self._on_call = on_call
        self._held_until = 0.0

    async def get(self, path: str, **query: Query) -> Json | None:
        """An object; None when it is not there."""
        try:
            return await self._call(_Asked("get", "GET", path, query))
        except Absent:
            return None

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection; raise `Conflict` when there is one of its name."""
        return await self._call(_Asked("create", "POST", path, body=body))

    async def replace(self, path: str, body: Json) -> Json:
        """Write an object or its status; raise `Conflict` when its resource version is not the newest."""
        return await self._call(_Asked("update", "PUT", path, body=body))

    async def patch(self, path: str, operations: Sequence[Json]) -> Json | None:
        """JSON patch; None when the object is not there. Raises `Conflict` when a `test` of it fails."""
        asked = _Asked("patch", "PATCH", path, body=list(operations), content_type=JSON_PATCH)
        try:
            return await self._call(asked)
        except Absent:
            return None
        except Rejected as error:
            if _UNTOLD in str(error) and any(step["op"] == "test" for step in operations):
                raise Conflict(f"{asked.what}: it was written by somebody else") from error
            raise

    async def merge(self, path: str, body: Json) -> Json:
        """Merge patch."""
        return await self._call(_Asked("patch", "PATCH", path, body=body, content_type=MERGE_PATCH))

    async def delete(self, path: str, **query: Query) -> None:
        """Delete an object; nothing when it is not there."""
        try:
            await self._call(_Asked("delete", "DELETE", path, query))
        except Absent:
            return

    async def pages(self, path: str, *, limit: int = 100, **query: Query) -> AsyncIterator[Json]:
        """Items of a collection, `limit` a call, none twice; none when the collection is not there.

        Where the list has grown too old between two pages it starts anew and leaves out what was given.
        """
        async for item in self._items(_Asked("list", "GET", path, {**query, "limit": limit})):
            yield item

    async def outlines(self, path: str, *, limit: int = 500, **query: Query) -> AsyncIterator[Json]:
        """As `pages`, but of every item its metadata alone."""
        asked = _Asked("list", "GET", path, {**query, "limit": limit}, accept=METADATA_ONLY)
        async for item in self._items(asked):
            yield item

    async def listed(self, path: str, **query: Query) -> tuple[tuple[Json, ...], str]:
        """All items of a collection and the resource version to watch from."""
        return await self.reduced(path, lambda item: item, limit=LIST_PAGE, **query)

    async def reduced(
        self, path: str, read: Callable[[Json], T], *, limit: int = 100, **query: Query
    ) -> tuple[tuple[T, ...], str]:
        """As `listed`, but only what `read` makes of every item: at most `limit` whole ones at once."""
        asked = _Asked("list", "GET", path, {**query, "limit": limit})
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._reduced(asked, read)
            except Gone:
                continue
        return await self._reduced(asked, read)

    async def watch(
        self, path: str, *, resource_version: str, seconds: float, **query: Query
    ) -> AsyncIterator[tuple[str, Json]]:
        """Changes since a version as (ADDED | MODIFIED | DELETED | BOOKMARK, object), for at most `seconds`.

        Raises `Gone` when the version is too old, and `Unavailable` when the connection is cut or the server
        does not end the watch in time.
        """
        words: dict[str, Query] = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version,
            "timeoutSeconds": max(1, round(seconds)),
        }
        asked = _Asked("watch", "GET", path, words | query)
        async with self._answer(asked, seconds + self._timeout_seconds) as answer:
            async for line in lines(asked.what, answer):
                yield change(asked.what, line)

    async def _items(self, asked: "_Asked") -> AsyncIterator[Json]:
        seen: set[str] = set()
        for attempt in range(LIST_ATTEMPTS):
            try:
                async for page in self._listing(asked):
                    for item in page["items"] or ():
                        if (uid := item["metadata"]["uid"]) not in seen:
                            seen.add(uid)
                            yield item
            except Absent:
                return
            except Gone:
                if attempt == LIST_ATTEMPTS - 1:
                    raise
            else:
                return

    async def _reduced(self, asked: "_Asked", read: Callable[[Json], T]) -> tuple[tuple[T, ...], str]:
        found: list[T] = []
        version = ""
        async for page in self._listing(asked):
            found += map(read, page["items"] or ())
            version = str(page["metadata"]["resourceVersion"])
        return tuple(found), version

    async def _listing(self, asked: "_Asked") -> AsyncIterator[Json]:
        onward = ""
        while True:
            query = {**asked.query, "continue": onward} if onward else asked.query
            page = await self._call(replace(asked, query=query))
            if not isinstance(page.get("items", 0), list | None) or not isinstance(
                page.get("metadata"), dict
            ):
                raise Unavailable(f"{asked.what}: the answer is no list")
            yield page
            onward = page["metadata"].get("continue") or ""
            if not onward:
                return

    async def _call(self, asked: "_Asked") -> Json:
        async with self._answer(asked, self._timeout_seconds) as answer:
            return json_object(asked.what, await whole(asked.what, answer))

    @asynccontextmanager
    async def _answer(self, asked: "_Asked", total_seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer, its body not yet read."""
        what = asked.what
        self._check_held(what)
        self._on_call(what.verb, what.resource)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._sent(asked, total_seconds)
            async with _dropped(answer):
                if answer.status >= 300:
                    said = await whole(what, answer)
                    raise self._noted(failure(what, answer.status, said, answer.headers.get("Retry-After")))
                yield answer
        except TimeoutError as error:
            raise Unavailable(f"{what}: no whole answer within {total_seconds:g} s") from error
        except (aiohttp.ClientError, ConfigException, OSError) as error:
            raise Unavailable(f"{what}: {type(error).__name__} {error}".rstrip()) from error

    def _check_held(self, what: Deed) -> None:
        """Fail at once while the API server has asked for fewer calls: it counts those of all policies."""
        left = self._held_until - asyncio.get_running_loop().time()
        if left > 0:
            text = f"{what}: not asked, the API server is overloaded (HTTP 429)"
            raise Overloaded(text, retry_after_seconds=left)

    def _noted(self, error: KvtuneError) -> KvtuneError:
        """Make no call for as long as the API server asks, but not longer than a call may take."""
        if isinstance(error, Overloaded):
            asked = error.retry_after_seconds
            seconds = min(BACK_OFF_SECONDS if asked is None else asked, self._timeout_seconds)
            self._held_until = asyncio.get_running_loop().time() + seconds
        return error

    async def _sent(self, asked: "_Asked", total_seconds: float) -> aiohttp.ClientResponse:
        headers = {"Accept": asked.accept, "Accept-Encoding": "identity", "Content-Type": asked.content_type}
        await self._api.update_params_for_auth(
            headers, None, ["BearerToken"], asked.path, asked.method, asked.body
        )
        url = f"{self._api.configuration.host}{asked.path}"
        if asked.query:
            words = {key: _word(value) for key, value in asked.query.items()}
            url += "?" + urlencode(words, quote_via=quote)
        connect = min(CONNECT_SECONDS, self._timeout_seconds)
        timeout = aiohttp.ClientTimeout(total=total_seconds, connect=connect)
        answer = await self._api.call_api(asked.method, url, headers, asked.body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call."""

    verb: str
    method: str
    path: str
    query: Mapping[str, Query] = field(default_factory=dict)
    body: Json | list[Json] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def what(self) -> Deed:
        return deed(self.verb, self.path)


@asynccontextmanager
async def connect(
    kubeconfig: Path | None,
    *,
    timeout_seconds: float = 10.0,
    on_call: Callable[[str, str], None] = lambda verb, resource: None,
) -> AsyncIterator[Kube]:
    """Talk to the API server of a kubeconfig, or (None) of the cluster that this process runs in.

    Raises `SpecError` when the credentials cannot be read. They are read again while connected, so that a
    token that expires is replaced.
    """
    try:
        configuration = await configuration_of(kubeconfig)
        api = ApiClient(configuration)
    except (ConfigException, yaml.YAMLError, ssl.SSLError, OSError, TypeError, ValueError) as error:
        where = str(kubeconfig) if kubeconfig else "in-cluster credentials"
        raise SpecError(Problem("", f"{where}: cannot be used to reach an API server: {error}")) from error
    async with api:
        yield Kube(api, timeout_seconds=timeout_seconds, on_call=on_call)


@asynccontextmanager
async def _dropped(answer: aiohttp.ClientResponse) -> AsyncIterator[None]:
    """Give an answer back; one that was not read to its end loses its connection at once.

    A polite end of TLS would wait for the server, which may be frozen.
    """
    async with answer:
        try:
            yield
        finally:
            if (connection := answer.connection) is not None and (wire := connection.transport) is not None:
                wire.abort()


def _word(value: Query) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
