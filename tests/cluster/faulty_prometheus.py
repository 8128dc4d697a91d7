"""A real Prometheus over the agents of a farm, and a server before it that answers wrongly when told to.

Every policy asks under a path of its own, so that one Prometheus serves all faults at once.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kvtune_api.codec import parse_json
from kvtune_api.sources import Preset
from kvtune_api.wire import Counters, Report
from kvtune_operator.adapters.presets import TABLES
from kvtune_operator.clock import WallClock
from tests.cluster.farm import Farm
from tests.cluster.web import Quiet, served
from tools.controlplane.prometheus import Prometheus

Series = list[dict[str, Any]]
SKEW_SECONDS = 3600.0
ASK_SECONDS = 10.0


@dataclass(slots=True)
class Front:
    """What is wrong for whom: a name of a fault by path. Without one the real Prometheus answers."""

    url: str = ""
    faults: dict[str, str] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Paths that need this bearer token."""

    unscraped: set[str] = field(default_factory=set)
    """Pods whose metrics cannot be scraped."""


@contextmanager
def fronted(farm: Farm, folder: Path) -> Iterator[Front]:
    """Scrape the farm's agents every 2 s, and serve what is scraped through a front."""
    front = Front()
    places = {
        pod["metadata"]["name"]: pod["status"]["podIP"]
        for pod in farm.access.call("GET", farm.pods_path)["items"]
    }
    with served(_exporter(farm, places, front)) as port:
        static = [
            {
                "targets": [f"127.0.0.1:{port}"],
                "labels": {"pod": pod, "namespace": farm.namespace, "__param_pod": pod},
            }
            for pod in places
        ]
        config = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
            "scrape_configs": [{"job_name": "agents", "static_configs": static}],
        }
        with (
            Prometheus(folder / "prometheus", config) as prometheus,
            served(_front(front, prometheus.url)) as at,
        ):
            front.url = f"http://127.0.0.1:{at}"
            yield front


def _exporter(farm: Farm, places: Mapping[str, str], front: Front) -> type[Quiet]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    class Metrics(Quiet):
        def get(self) -> None:
            [pod] = parse_qs(urlsplit(self.path).query)["pod"]
            try:
                with opener.open(
                    f"http://{places[pod]}:{farm.port}/v1/report", timeout=ASK_SECONDS
                ) as answer:
                    report = parse_json(Report, answer.read())
            except OSError:
                report = None
            if report is None or report.counters is None or pod in front.unscraped:
                self.answer(503, b"")
                return
            self.answer(200, exposition(report.counters).encode(), "text/plain; version=0.0.4")

    return Metrics


def exposition(counters: Counters) -> str:
    """An agent's counters as its /metrics has them."""
    table = TABLES[Preset.AGENT]
    assert table.at is not None
    lines = [f"{table.at} {counters.at}", f"{table.started_at} {counters.started_at}"]
    for name, series in table.counters.items():
        if (value := getattr(counters, name)) is not None:
            lines.append(f"{series.either[0]} {value}")
    if counters.ttft is not None:
        bounds = [*(f"{bound:g}" for bound in counters.ttft.bounds), "+Inf"]
        lines += [
            f'{table.ttft}_bucket{{le="{bound}"}} {count}'
            for bound, count in zip(bounds, counters.ttft.counts, strict=True)
        ]
        lines += [f"{table.ttft}_sum {counters.ttft.sum}", f"{table.ttft}_count {counters.ttft.counts[-1]}"]
    return "\n".join(lines) + "\n"


def _front(front: Front, prometheus: str) -> type[Quiet]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    clock = WallClock()

    class Answer(Quiet):
        def date_time_string(self, timestamp: float | None = None) -> str:
            skewed = front.faults.get(self._who) == "skewed"
            return formatdate(
                clock.unix_milliseconds() / 1000 + (SKEW_SECONDS if skewed else 0.0), usegmt=True
            )

        @property
        def _who(self) -> str:
            return self.path.split("/")[1]

        def post(self, body: bytes) -> None:
            who, _, rest = self.path[1:].partition("/")
            front.asked[who] = front.asked.get(who, 0) + 1
            fault = front.faults.get(who, "")
            wanted = front.tokens.get(who)
            if wanted is not None and self.headers.get("Authorization") != f"Bearer {wanted}":
                fault = "unauthorized"
            match fault:
                case "unauthorized":
                    self.answer(401, b"Unauthorized", "text/plain")
                case "page":
                    self.answer(200, b"<html>It works!</html>", "text/html")
                case "broken":
                    self.answer(503, b"no healthy upstream", "text/plain")
                case "cut":
                    self.close_connection = True
                case _:
                    asked = urllib.request.Request(f"{prometheus}/{rest}", data=body)
                    try:
                        with opener.open(asked, timeout=ASK_SECONDS) as answer:
                            self._series(fault, json.load(answer))
                    except urllib.error.HTTPError as error:
                        self.answer(error.code, error.read())

        def _series(self, fault: str, document: dict[str, Any]) -> None:
            found: Series = document["data"]["result"]
            document["data"]["result"] = CHANGES.get(fault, _same)(found)
            self.answer(200, json.dumps(document).encode())

    return Answer


def _same(found: Series) -> Series:
    return found


def _nan(found: Series) -> Series:
    return [
        {
            **one,
            "values": [
                [at, "NaN" if "timestamp" not in one["metric"]["__name__"] else value]
                for at, value in one["values"]
            ],
        }
        for one in found
    ]


def _twice(found: Series) -> Series:
    return [{**one, "metric": {**one["metric"], "prometheus": name}} for one in found for name in ("a", "b")]


CHANGES: Mapping[str, Callable[[Series], Series]] = {
    "empty": lambda found: [],
    "nan": _nan,
    "twice": _twice,
}


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
