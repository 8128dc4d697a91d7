"""Calls to a Kubernetes API server as plain JSON: bounded in time and size, and never redirected.

Over the connection and the credentials of `kubernetes.aio`, without its models. Used by the adapters of
policies, experiments, events, leases, pods and nodes. What fails is told as in kube_errors.py; headers are
never logged.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException

from kvtune_api.errors import Conflict, Problem, SpecError, Unavailable
from kvtune_operator.adapters.kube_answers import Json, change, json_object, lines, whole
from kvtune_operator.adapters.kube_credentials import configuration_of
from kvtune_operator.adapters.kube_errors import Absent, Deed, Gone, Rejected, deed, failure

Query = str | int | bool

CONNECT_SECONDS = 5.0
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

    async def get(self, path: str, **query: Query) -> Json | None:
        """An object; None when it is not there."""
        try:
            return await self._call(deed("get", path), "GET", path, query)
        except Absent:
            return None

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection; raise `Conflict` when there is one of its name."""
        return await self._call(deed("create", path), "POST", path, {}, body)

    async def replace(self, path: str, body: Json) -> Json:
        """Write an object or its status; raise `Conflict` when its resource version is not the newest."""
        return await self._call(deed("update", path), "PUT", path, {}, body)

    async def patch(self, path: str, operations: Sequence[Json]) -> Json | None:
        """JSON patch; None when the object is not there. Raises `Conflict` when a `test` of it fails."""
        what = deed("patch", path)
        try:
            return await self._call(what, "PATCH", path, {}, list(operations), "application/json-patch+json")
        except Absent:
            return None
        except Rejected as error:
            if _UNTOLD in str(error) and any(step["op"] == "test" for step in operations):
                raise Conflict(f"{what}: it was written by somebody else") from error
            raise

    async def merge(self, path: str, body: Json) -> Json:
        """Merge patch."""
        return await self._call(deed("patch", path), "PATCH", path, {}, body, "application/merge-patch+json")

    async def delete(self, path: str, **query: Query) -> None:
        """Delete an object; nothing when it is not there."""
        try:
            await self._call(deed("delete", path), "DELETE", path, query)
        except Absent:
            return

    async def pages(self, path: str, *, limit: int = 100, **query: Query) -> AsyncIterator[Json]:
        """Items of a collection, `limit` a call, none twice; none when the collection is not there.

        Where the list has grown too old between two pages it starts anew and leaves out what was given.
        """
        seen: set[str] = set()
        for attempt in range(LIST_ATTEMPTS):
            try:
                async for page in self._listing(path, limit, query):
                    for item in page["items"]:
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

    async def listed(self, path: str, **query: Query) -> tuple[tuple[Json, ...], str]:
        """All items of a collection and the resource version to watch from."""
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._listed(path, query)
            except Gone:
                continue
        return await self._listed(path, query)

    async def watch(
        self, path: str, *, resource_version: str, seconds: float, **query: Query
    ) -> AsyncIterator[tuple[str, Json]]:
        """Changes since a version as (ADDED | MODIFIED | DELETED | BOOKMARK, object), for at most `seconds`.

        Raises `Gone` when the version is too old, and `Unavailable` when the connection is cut or the server
        does not end the watch in time.
        """
        what = deed("watch", path)
        asked = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version,
            "timeoutSeconds": max(1, round(seconds)),
            **query,
        }
        total = seconds + self._timeout_seconds
        async with self._answer(what, "GET", path, asked, total_seconds=total) as answer:
            async for line in lines(what, answer):
                yield change(what, line)

    async def _listed(self, path: str, query: Mapping[str, Query]) -> tuple[tuple[Json, ...], str]:
        items: list[Json] = []
        version = ""
        async for page in self._listing(path, LIST_PAGE, query):
            items += page["items"]
            version = str(page["metadata"]["resourceVersion"])
        return tuple(items), version

    async def _listing(self, path: str, limit: int, query: Mapping[str, Query]) -> AsyncIterator[Json]:
        what, onward = deed("list", path), ""
        while True:
            asked = {**query, "limit": limit} | ({"continue": onward} if onward else {})
            page = await self._call(what, "GET", path, asked)
            if not isinstance(page.get("items"), list) or not isinstance(page.get("metadata"), dict):
                raise Unavailable(f"{what}: the answer is no list")
            yield page
            onward = page["metadata"].get("continue") or ""
            if not onward:
                return

    async def _call(
        self,
        what: Deed,
        method: str,
        path: str,
        query: Mapping[str, Query],
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        total = self._timeout_seconds
        async with self._answer(
            what, method, path, query, total_seconds=total, body=body, content_type=content_type
        ) as answer:
            return json_object(what, await whole(what, answer))

    @asynccontextmanager
    async def _answer(
        self,
        what: Deed,
        method: str,
        path: str,
        query: Mapping[str, Query],
        *,
        total_seconds: float,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer, its body not yet read."""
        self._on_call(what.verb, what.resource)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._sent(method, path, query, total_seconds, body, content_type)
            async with answer:
                if answer.status >= 300:
                    said = await whole(what, answer)
                    raise failure(what, answer.status, said, answer.headers.get("Retry-After"))
                yield answer
        except TimeoutError as error:
            raise Unavailable(f"{what}: no whole answer within {total_seconds:g} s") from error
        except (aiohttp.ClientError, ConfigException, OSError) as error:
            raise Unavailable(f"{what}: {type(error).__name__} {error}".rstrip()) from error

    async def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, Query],
        total_seconds: float,
        body: Json | list[Json] | None,
        content_type: str,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": content_type}
        await self._api.update_params_for_auth(headers, None, ["BearerToken"], path, method, body)
        url = f"{self._api.configuration.host}{path}"
        if query:
            url += "?" + urlencode({key: _word(value) for key, value in query.items()}, quote_via=quote)
        connect = min(CONNECT_SECONDS, self._timeout_seconds)
        timeout = aiohttp.ClientTimeout(total=total_seconds, connect=connect)
        answer = await self._api.call_api(method, url, headers, body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


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


def _word(value: Query) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
