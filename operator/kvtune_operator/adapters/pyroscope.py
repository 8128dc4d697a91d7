"""Profiles from a Pyroscope: the port `Profiles`. One request an agent and window, bounded in time and size.

API: `GET /pyroscope/render?query=TYPE{labels}&from=&until=&format=json&max-nodes=`, times in unix seconds
(https://grafana.com/docs/pyroscope/latest/reference-server-api/).
"""

import asyncio
import math
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import aiohttp

from kvtune_api.errors import Unavailable
from kvtune_api.sources import PyroscopeSource
from kvtune_operator.adapters.credentials import Provider, tls_context
from kvtune_operator.adapters.flamebearer import Frames, stalls
from kvtune_operator.adapters.promql import quoted
from kvtune_operator.ports import Profiles
from kvtune_tuner.model import Stalls
from kvtune_tuner.sli import Missing

PARALLEL = 16
ANSWER_BYTES = 16 << 20
MAX_NODES = 16_384
KEPT = 5_000
_SHOWN = 120


class PyroscopeProfiles(Profiles):
    """Implement `ports.Profiles` over one Pyroscope, for one policy.

    `label_of` gives the value of the pod label for an agent's name; `namespace` is None where agents are not
    pods.
    """

    def __init__(
        self,
        source: PyroscopeSource,
        label_of: Callable[[str], str],
        namespace: str | None,
        credentials: Provider,
        session: Callable[[], aiohttp.ClientSession],
        *,
        quotes: bool = True,
    ) -> None:
        """`source` is resolved: everything that has a default is set, and the address too.

        Without `quotes` no message has any of the text that comes from the address.
        """
        self._quotes = quotes
        assert source.address and source.pod_label and source.profile_type and source.timeout
        self._where = f"{source.address.rstrip('/')}/pyroscope/render"
        self._profile_type = source.profile_type
        self._pod_label = source.pod_label
        self._timeout_seconds = source.timeout.seconds
        self._labels = dict(source.matchers)
        if namespace is not None:
            self._labels[source.namespace_label or "namespace"] = namespace
        self._frames = Frames(
            load=source.load_frames or (), store=source.store_frames or (), evict=source.evict_frames or ()
        )
        self._label_of = label_of
        self._credentials = credentials
        self._session = session
        self._known: OrderedDict[tuple[str, float, float], Stalls] = OrderedDict()

    async def stalls(
        self, agents: Sequence[str], since: float, until: float
    ) -> Mapping[str, Stalls | Missing]:
        """Samples of every agent between two unix seconds; raise `Unavailable` when Pyroscope fails."""
        wanted = [agent for agent in agents if (agent, since, until) not in self._known]
        found = await self._asked(wanted, since, until) if wanted else {}
        for agent, samples in found.items():
            if isinstance(samples, Stalls):
                self._known[agent, since, until] = samples
        answers = {agent: found.get(agent) or self._known[agent, since, until] for agent in agents}
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return answers

    async def _asked(self, agents: Sequence[str], since: float, until: float) -> dict[str, Stalls | Missing]:
        """Ask for some agents; the first failure of Pyroscope itself ends it for all."""
        credentials = await self._credentials()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        headers |= dict(credentials.headers if credentials else {})
        context, gate, down = tls_context(credentials), asyncio.Semaphore(PARALLEL), list[Unavailable]()

        async def one(agent: str) -> Stalls | Missing | None:
            async with gate:
                if down:
                    return None
                params = self._params(agent, since, until)
                try:
                    async with asyncio.timeout(self._timeout_seconds):
                        status, kind, body = await self._exchange(params, headers, context)
                except TimeoutError:
                    down.append(
                        self._unavailable(f"no whole answer within {self._timeout_seconds:g} s", params)
                    )
                except (aiohttp.ClientError, OSError, ValueError) as error:
                    down.append(self._unavailable(_cause(error), params))
                else:
                    if status == 200:
                        return self._parsed(agent, body, params)
                    said = _shown(body) if self._quotes else kind and f"({kind[:_SHOWN]})"
                    down.append(self._unavailable(f"HTTP {status} {said}".rstrip(), params))
                return None

        answers = await asyncio.gather(*(one(agent) for agent in agents))
        if down:
            raise down[0]
        return {agent: item for agent, item in zip(agents, answers, strict=True) if item is not None}

    def _params(self, agent: str, since: float, until: float) -> dict[str, str]:
        labels = {**self._labels, self._pod_label: self._label_of(agent)}
        selector = ",".join(f"{name}={quoted(value)}" for name, value in sorted(labels.items()))
        return {
            "query": f"{self._profile_type}{{{selector}}}",
            "from": f"{math.floor(since)}",
            "until": f"{math.ceil(until)}",
            "format": "json",
            "max-nodes": f"{MAX_NODES}",
        }

    async def _exchange(
        self, params: Mapping[str, str], headers: Mapping[str, str], context: ssl.SSLContext
    ) -> tuple[int, str, bytes]:
        async with self._session().get(
            self._where,
            params=dict(params),
            headers=dict(headers),
            allow_redirects=False,
            ssl=context,
        ) as got:
            body = bytearray()
            async for part in got.content.iter_any():
                body += part
                if len(body) > ANSWER_BYTES:
                    raise ValueError(f"HTTP {got.status}, more than {ANSWER_BYTES} bytes")
            kind = got.headers.get("Content-Type", "").partition(";")[0].strip()
            return got.status, kind, bytes(body)

    def _parsed(self, agent: str, body: bytes, params: Mapping[str, str]) -> Stalls | Missing:
        found = stalls(body, self._frames)
        if isinstance(found, Stalls):
            return found
        message = f"{agent}: {found.message} ({self._asked_for(params)})"
        return Missing(reason=found.reason, message=message)

    def _unavailable(self, why: str, params: Mapping[str, str]) -> Unavailable:
        return Unavailable(f"GET {self._where}: {why} ({params['query']})")

    def _asked_for(self, params: Mapping[str, str]) -> str:
        return f"GET {self._where}, {params['query']} from {params['from']} until {params['until']}"


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"TLS: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect ({error.os_error.strerror or error.os_error})"
        case ValueError() if str(error):
            return str(error)
    return f"no HTTP answer ({type(error).__name__})"


def _shown(body: bytes) -> str:
    text = " ".join(body[: 4 * _SHOWN].decode("utf-8", "replace").split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
