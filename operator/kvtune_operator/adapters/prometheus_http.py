"""Ask a Prometheus one question: bounded in time and size, no redirect, no proxy, no retry. Blocking.

By prometheus-api-client over a session of our own, for the library itself follows redirects with all headers,
puts the parameters of a POST into the address, reads an answer of any size for any time, and drops warnings.
Called in threads by prometheus.py. Text of an answer is quoted only where the operator chose the address.
"""

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.credentials import Credentials, tls_context

ANSWER_BYTES = 64 << 20
_PART_BYTES = 1 << 16
_SHOWN = 160
ERROR_TYPES = frozenset(
    ("bad_data", "canceled", "execution", "internal", "not_acceptable", "not_found", "timeout", "unavailable")
)
"""Kinds of errors of Prometheus' API (its web/api/v1/api.go): words of ours, wherever they are from."""

Series = dict[str, Any]
"""One series of an answer: `metric` (labels) and `values` or `value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A whole answer."""

    series: list[Series] = field(default_factory=list)
    server_time: datetime | None = None
    size_bytes: int = 0


@dataclass(slots=True)
class _Whole:
    """What the library reads of a response."""

    status_code: int
    content: bytes
    document: Any
    server_time: datetime | None
    content_type: str

    def json(self) -> Any:
        return self.document


class _Session(requests.Session):
    """A session whose every answer is whole, small enough, in time and from the host that was asked."""

    def __init__(self, seconds: float, monotonic: Callable[[], float], *, quotes: bool) -> None:
        super().__init__()
        self.trust_env = False  # neither proxies nor passwords of the environment
        self._seconds = seconds
        self._monotonic = monotonic
        self._quotes = quotes
        self.last: _Whole | None = None

    def request(  # type: ignore[override]  # the library hands the answer through to us alone
        self, method: str, url: str, **options: Any
    ) -> _Whole:
        deadline = self._monotonic() + self._seconds
        where = f"{method} {url}"
        options |= {"data": options.pop("params", None), "allow_redirects": False, "stream": True}
        with super().request(method, url, **options) as response:
            body = self._body(response, deadline, where)
            self.last = _whole(response, body, where, quotes=self._quotes)
        return self.last

    def _body(self, response: requests.Response, deadline: float, where: str) -> bytes:
        found = bytearray()
        while part := response.raw.read1(_PART_BYTES, decode_content=True):
            found += part
            if len(found) > ANSWER_BYTES:
                raise Unavailable(f"{where}: HTTP {response.status_code}, more than {ANSWER_BYTES} bytes")
            if self._monotonic() > deadline:
                raise Unavailable(f"{where}: no whole answer within {self._seconds:g} s")
        return bytes(found)


class _Trusting(HTTPAdapter):
    """Connections under one TLS context, and nothing that requests would add to it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.sockets: list[socket.socket] = []
        super().__init__(max_retries=Retry(0))

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options, ssl_context=self._context)
        self.poolmanager.pool_classes_by_scheme = _pools(self.sockets)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Nothing: the context says whom to trust."""


def _pools(sockets: list[socket.socket]) -> dict[str, type[HTTPConnectionPool]]:
    """Pools whose connections put their sockets into a list, so that they can be cut from outside."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            sockets[:] = [self.sock]

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            sockets[:] = [self.sock]

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class PrometheusHttp:
    """One Prometheus under one set of credentials. Not for two threads at once."""

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        credentials: Credentials | None,
        monotonic: Callable[[], float],
        quotes: bool = True,
    ) -> None:
        """Without `quotes` no message has any text of an answer, nor of what is no answer of HTTP."""
        self._quotes = quotes
        self.where = f"POST {address.rstrip('/')}/api/v1/query"
        self._timeout_seconds = timeout_seconds
        self._session = _Session(timeout_seconds, monotonic, quotes=quotes)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        self._client = PrometheusConnect(
            url=address.rstrip("/"),
            headers=headers | dict(credentials.headers if credentials else {}),
            retry=Retry(0),
            session=self._session,
            timeout=timeout_seconds,
            method="POST",
        )
        self._adapter = _Trusting(tls_context(credentials))
        self._session.mount(address.rstrip("/"), self._adapter)

    def close(self) -> None:
        """Give the connections up."""
        self._client.close()

    def abort(self) -> None:
        """End an exchange in another thread at once: a server that says a byte a second is not waited for."""
        for opened in self._adapter.sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        self.close()

    def ask(self, query: str, at: float, extra: Mapping[str, str] | None = None) -> Answered:
        """The answer to an instant query; raise `Unavailable` with address, status and reason."""
        params = {"time": f"{at:.3f}", "timeout": f"{self._timeout_seconds * 1000:.0f}ms", **(extra or {})}
        self._session.last = None
        try:
            found = self._client.custom_query(query, params=params)
        except (requests.Timeout, TimeoutError) as error:
            raise Unavailable(f"{self.where}: no answer within {self._timeout_seconds:g} s") from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise Unavailable(f"{self.where}: {_cause(error, quotes=self._quotes)}") from error
        except PrometheusApiClientException as error:
            raise Unavailable(f"{self.where}: {_refusal(self._session.last, quotes=self._quotes)}") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self.where}: HTTP 200 is not what a Prometheus answers") from error
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise Unavailable(f"{self.where}: the query gives no vector: per agent one number is needed")
        last = self._session.last
        return Answered(
            series=found,
            server_time=last.server_time if last else None,
            size_bytes=len(last.content) if last else 0,
        )


def _whole(response: requests.Response, body: bytes, where: str, *, quotes: bool) -> _Whole:
    status = response.status_code
    if 300 <= status < 400:
        raise Unavailable(f"{where}: HTTP {status}, redirects are not followed")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    whole = _Whole(status, body, document, _date(response.headers.get("date")), kind)
    if status != 200:
        return whole
    if not isinstance(document, dict) or document.get("status") != "success":
        shown = f" ({kind})" if kind and kind != "application/json" else ""
        said = f": {_shown(body)}" if quotes else ""
        raise Unavailable(f"{where}: HTTP 200{shown} is not what a Prometheus answers{said}")
    if warnings := document.get("warnings"):
        first = _shown(str(warnings[0] if isinstance(warnings, list) else warnings).encode())
        raise Unavailable(f"{where}: the answer is only partial{f': {first}' if quotes else ''}")
    return whole


def _refusal(last: _Whole | None, *, quotes: bool) -> str:
    if last is None:
        return "no answer"
    document = last.document if isinstance(last.document, dict) else {}
    text = document.get("error")
    why = _shown(text.encode() if isinstance(text, str) else last.content)
    if not quotes:
        known = document.get("errorType")
        why = f"{known} " if isinstance(known, str) and known in ERROR_TYPES else ""
        why += f"({last.content_type[:_SHOWN]})" if last.content_type else ""
    hint = {401: "credentials are needed or wrong", 403: "the credentials may not do this"}
    said = f" ({hint[last.status_code]})" if last.status_code in hint else ""
    return f"HTTP {last.status_code}{said} {why}".rstrip()


def _cause(error: Exception, *, quotes: bool) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text or isinstance(error, requests.exceptions.SSLError):
        found = text.partition("certificate verify failed: ")[2].partition(" (")[0]
        return f"TLS: {found or _shown(text.encode())}"
    if "refused" in text:
        return "connection refused"
    if "NameResolutionError" in text or "Name or service" in text or "getaddrinfo" in text:
        return "the name cannot be resolved"
    if isinstance(error, requests.exceptions.InvalidURL):
        return "is not an address"
    if not quotes:
        return f"no HTTP answer ({type(error).__name__})"
    return f"no HTTP answer ({_shown(text.rpartition(': ')[2].encode()) or type(error).__name__})"


def _date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _shown(body: bytes) -> str:
    text = " ".join(body[: 4 * _SHOWN].decode("utf-8", "replace").split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
