"""What every source of counters must do: simulated, scraped directly, and from a Prometheus that scrapes."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.names import Metric
from kvtune_api.sources import PrometheusSource
from kvtune_api.wire import Counters
from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.credentials import no_credentials
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.adapters.source_adapters import instance
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Agents, Metrics
from kvtune_operator.sources import ADDRESS_LABEL, resolved
from kvtune_tuner.sli import Missing, MissingReason
from tests.e2e.fleet import KNOBS, free_ports
from tests.e2e.processes import KVTUNE, LAB, Running, kvtune, until
from tests.fakes.clock import FakeClock
from tests.fakes.pool import FakeAgents, FakeMetrics, Pool
from tests.fakes.samples import cache_config
from tests.fakes.sim import PoolSettings
from tools.controlplane.prometheus import Prometheus

DEAD = "http://127.0.0.1:1"
"""Nobody listens on port 1."""

GONE = frozenset({MissingReason.UNREACHABLE, MissingReason.NO_DATA, MissingReason.BOUND_MISSED})


@dataclass(frozen=True)
class World:
    """One implementation over two live agents that have seen traffic."""

    agents: Agents
    metrics: Metrics
    names: tuple[str, str]
    now: Callable[[], float]


@dataclass(frozen=True)
class Live:
    """Agents as processes, and a Prometheus that scrapes each twice, as a highly available pair would."""

    names: tuple[str, str]
    token_file: Path
    prometheus: Prometheus

    def metrics(self, **source: Any) -> PrometheusMetrics:
        """An adapter of this Prometheus."""
        settings = {"scrapeInterval": "1s", "scrapeDelay": "1s", "replicaLabel": "replica", **source}
        asked = parse(PrometheusSource, {"address": self.prometheus.url, **settings})
        return PrometheusMetrics(
            resolved(asked, PrometheusSource(), pod_label=ADDRESS_LABEL),
            instance,
            None,
            no_credentials,
            WallClock().now,
            monotonic=WallClock().monotonic,
        )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    token_file = folder / "token"
    assert kvtune("token", "--file", token_file).returncode == 0
    ports, origin = free_ports(2), time.time() // 5 * 5  # noqa: TID251  # real processes have real time
    names = (f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")
    speed = ("--speed", 1)
    with contextlib.ExitStack() as stack:

        def start(name: str, module: str, *args: object) -> Running:
            process = Running(folder / "logs", name, module, *args)
            stack.callback(process.clean_up)
            return process

        for port in ports:
            name = f"agent-{port}"
            files = ("--state-dir", folder / name, "--token-file", token_file, "--origin", origin)
            start(name, KVTUNE, "agent", "--name", name, "--port", port, *files, *speed, *KNOBS).until_said(
                "listens on"
            )
        agents = ("--agents", ",".join(names), "--token-file", token_file, "--origin", origin)
        start("driver", LAB, "drive", *agents, *speed, "--rate", 2, "--prefill", 5).until_said('"prefilled"')
        prometheus = stack.enter_context(
            Prometheus(folder / "prometheus", _pair([instance(n) for n in names]))
        )
        growing = f"changes({Metric.AGENT_COUNTERS_AT}[1m]) > 1"
        until(lambda: _value(prometheus, f"count({growing})") == 4, "requests are seen to grow")
        yield Live(names, token_file, prometheus)


def _pair(targets: Sequence[str]) -> dict[str, Any]:
    jobs = [
        {
            "job_name": f"agents-{replica}",
            "static_configs": [{"targets": list(targets), "labels": {"replica": replica}}],
            "relabel_configs": [{"target_label": "job", "replacement": "agents"}],
        }
        for replica in ("a", "b")
    ]
    return {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}


def _value(prometheus: Prometheus, query: str) -> float:
    found = prometheus.query(query)
    return float(found[0]["value"][1]) if found else 0.0


def simulated() -> World:
    clock = FakeClock()
    pool = Pool(PoolSettings(agents=2, ring_seconds=3600), config=cache_config())
    first, second = pool.names()
    clock.advance(17.0)
    return World(FakeAgents(pool, clock), FakeMetrics(pool, clock), (first, second), lambda: clock.seconds)


@pytest.fixture(params=["simulated", "direct", "prometheus"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "simulated":
        yield simulated()
        return
    live = request.getfixturevalue("live")
    async with fetching(timeout_seconds=10.0) as fetcher:
        metrics = live.metrics() if request.param == "prometheus" else ScrapeMetrics(fetcher)
        agents = HttpAgents(fetcher, TokenFile(live.token_file))
        yield World(agents, metrics, live.names, lambda: WallClock().now().timestamp())


async def newest_of(world: World, names: Sequence[str]) -> Mapping[str, Counters | Missing]:
    return await world.metrics.newest(await world.agents.reports(names))


def counters(found: Counters | Missing) -> Counters:
    assert isinstance(found, Counters), found
    return found


def missing(found: Counters | Missing) -> Missing:
    assert isinstance(found, Missing), found
    return found


async def test_the_newest_counters_are_of_a_recent_grid_time(world: World) -> None:
    newest = await newest_of(world, world.names)

    assert set(newest) == set(world.names)
    for found in map(counters, newest.values()):
        assert found.at % 5 == 0
        assert world.now() - 15 < found.at <= world.now()
        assert found.requests
        assert found.prompt_tokens
        assert found.hit_tokens is not None
        assert found.ttft is not None
        assert found.ttft.counts[-1] == pytest.approx(found.requests)


async def test_counters_of_a_past_grid_time_are_what_they_were(world: World) -> None:
    first, _ = world.names
    newest = counters((await newest_of(world, world.names))[first])

    assert (await world.metrics.counters_at([first], newest.at))[first] == newest


async def test_counters_grow(world: World) -> None:
    first, _ = world.names
    newest = counters((await newest_of(world, [first]))[first])

    earlier = counters((await world.metrics.counters_at([first], newest.at - 5))[first])

    assert earlier.at == newest.at - 5
    assert earlier.started_at == newest.started_at
    assert (earlier.requests or 0) <= (newest.requests or 0)


async def test_counters_of_the_future_are_missing(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5 + 5) * 5))[first]

    assert missing(found).reason is MissingReason.NO_DATA


async def test_counters_from_before_the_agents_start_are_a_missed_bound(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5) * 5 - 100_000))[first]

    assert missing(found).reason is MissingReason.BOUND_MISSED


async def test_counters_of_a_dead_agent_are_missing_and_hide_no_other(world: World) -> None:
    first, _ = world.names
    newest = await newest_of(world, [first, DEAD])
    at = counters(newest[first]).at

    for found in (newest, await world.metrics.counters_at([first, DEAD], at)):
        assert isinstance(found[first], Counters)
        assert missing(found[DEAD]).reason in GONE


async def test_prometheus_gives_the_counters_that_the_agent_reports_for_the_same_time(live: Live) -> None:
    metrics = live.metrics()
    async with fetching(timeout_seconds=10.0) as fetcher:
        reports = await HttpAgents(fetcher, TokenFile(live.token_file)).reports(live.names)
        for name, found in (await metrics.newest(reports)).items():
            direct = (await ScrapeMetrics(fetcher).counters_at([name], counters(found).at))[name]

            assert counters(found) == counters(direct)


async def test_of_two_prometheis_one_is_used(live: Live) -> None:
    async with fetching(timeout_seconds=10.0) as fetcher:
        reports = await HttpAgents(fetcher, TokenFile(live.token_file)).reports(live.names)

    both = await live.metrics(replicaLabel=None).newest(reports)
    one = await live.metrics().newest(reports)

    for name in live.names:
        assert missing(both[name]).reason is MissingReason.AMBIGUOUS
        assert "differ in replica" in missing(both[name]).message
        assert isinstance(one[name], Counters)


async def test_a_moment_off_the_grid_is_answered_within_the_slack(live: Live) -> None:
    first, _ = live.names
    async with fetching(timeout_seconds=10.0) as fetcher:
        reports = await HttpAgents(fetcher, TokenFile(live.token_file)).reports(live.names)
        for metrics in (live.metrics(), ScrapeMetrics(fetcher)):
            newest = counters((await metrics.newest(reports))[first])
            found = (await metrics.counters_at([first], newest.at - 3, slack_seconds=15))[first]

            assert counters(found).at == newest.at - 5
