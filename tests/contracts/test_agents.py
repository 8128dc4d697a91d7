"""What every way to reach agents must do: ports `Agents` and `Metrics`, simulated, over HTTP, and as pods."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from kvtune_agent.agent import Agent, open_agent
from kvtune_agent.app import create_app
from kvtune_agent.settings import AgentSettings
from kvtune_agent.tokens import TokenFile as AgentTokenFile
from kvtune_api.operator_config import AgentAccess
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Counters, Report, Role
from kvtune_operator.adapters.agent_token import SecretToken
from kvtune_operator.adapters.agents import HttpAgents, TokenFile, WriteToken
from kvtune_operator.adapters.fetch import Fetcher, fetching
from kvtune_operator.adapters.inventory import Inventory
from kvtune_operator.adapters.kept import Lister, Timer
from kvtune_operator.adapters.kube import connect
from kvtune_operator.adapters.pods import PodAgents
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Accepted, Agents, Metrics, Refused, Unreachable
from kvtune_tuner.model import PoolSeen
from kvtune_tuner.sli import Missing, MissingReason
from tests.agent.fake_clock import FakeClock as AgentClock
from tests.cluster.ground import APP, standing
from tests.fakes.clock import FakeClock
from tests.fakes.nodes_and_pods import Cluster, Older, StaticToken, node, pod
from tests.fakes.pool import FakeAgents, FakeMetrics, Pool
from tests.fakes.samples import cache_config, incumbent_push, policy, push
from tests.fakes.servers import app_server
from tests.fakes.sim import PoolSettings
from tools.controlplane.access import Access

Place = tuple[str, int]
"""Address and port."""

TOKEN = "correct-horse"
DEAD = ("127.0.0.1", 1)
"""Nobody listens on port 1."""

AGENTS = ("a1", "a2")


@dataclass(frozen=True)
class World:
    """One implementation with two live agents that have seen traffic, and how time passes for them."""

    agents: Agents
    metrics: Metrics
    names: tuple[str, str]
    dead: str
    """Name of an agent that does not answer."""

    selecting: KVCachePolicy
    """A policy that selects the two."""

    advance: Callable[[float], None]
    """Let wall seconds pass (at most a lease's length at once)."""

    now: Callable[[], float]


@contextlib.asynccontextmanager
async def simulated(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    clock = FakeClock()
    pool = Pool(PoolSettings(agents=2, ring_seconds=3600), config=cache_config())
    first, second = pool.names()
    clock.advance(17.0)
    yield World(
        agents=FakeAgents(pool, clock),
        metrics=FakeMetrics(pool, clock),
        names=(first, second),
        dead=url(DEAD),
        selecting=policy(selector={"addresses": [f"{second}/", f"{first}/"]}),
        advance=clock.advance,
        now=lambda: clock.seconds,
    )


@dataclass(frozen=True)
class Served:
    """Two live agents that have seen traffic, and a fetcher to ask them with."""

    clock: AgentClock
    opened: Sequence[Agent]
    places: Sequence[Place]
    token_file: Path
    fetcher: Fetcher

    def advance(self, wall_seconds: float) -> None:
        """Let time pass for both."""
        self.clock.advance(wall_seconds)
        for agent in self.opened:
            agent.beat()


def url(place: Place) -> str:
    return "http://{}:{}".format(*place)


@contextlib.asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    clock, token_file, opened = AgentClock(), tmp_path / "token", list[Agent]()
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    async with contextlib.AsyncExitStack() as stack:
        places = []
        for name in AGENTS:
            settings = AgentSettings(
                name=name, config=cache_config(), state_dir=tmp_path / name, token_file=token_file
            )
            opened.append(open_agent(settings, clock))
            stack.callback(opened[-1].close)
            app = create_app(opened[-1], AgentTokenFile(token_file))
            address = await stack.enter_async_context(app_server(app))
            places.append(("127.0.0.1", int(address.rpartition(":")[2])))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        fetcher = await stack.enter_async_context(fetching(timeout_seconds=10.0))
        made = Served(clock, opened, places, token_file, fetcher)
        made.advance(17.0)
        for place in places:
            await feed(client, url(place), clock.now() - 17.0)
        yield made


@contextlib.asynccontextmanager
async def by_address(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with served(tmp_path) as made:
        first, second = map(url, made.places)
        yield World(
            agents=HttpAgents(made.fetcher, TokenFile(made.token_file)),
            metrics=ScrapeMetrics(made.fetcher),
            names=(first, second),
            dead=url(DEAD),
            selecting=policy(selector={"addresses": [f"{second}/", f"{first}/"]}),
            advance=made.advance,
            now=made.clock.now,
        )


@contextlib.asynccontextmanager
async def as_pods(made: Served, server: Lister, token: WriteToken, namespace: str) -> AsyncIterator[World]:
    inventory = Inventory(server, Timer(monotonic=WallClock().monotonic))
    async with inventory.of(namespace) as view:
        clock = FakeClock()
        agents = PodAgents(view, made.fetcher, token, rivals=Older(), access=AgentAccess, clock=clock)
        nodes = {"matchLabels": {"pool": namespace}}
        selecting = policy(selector={"nodes": nodes, "agents": {"matchLabels": APP}})
        await agents.discover(selecting)
        yield World(
            agents=agents,
            metrics=ScrapeMetrics(made.fetcher, address_of=agents.address_of),
            names=("a1", "a2"),
            dead="dead",
            selecting=selecting,
            advance=made.advance,
            now=made.clock.now,
        )


@contextlib.asynccontextmanager
async def pods(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with served(tmp_path) as made:
        places = dict(zip(("a2", "a1"), reversed(made.places), strict=True))
        found = [pod(name, ip=ip, number=port, labels=APP) for name, (ip, port) in places.items()]
        found.append(pod("dead", "elsewhere", ip=DEAD[0], number=DEAD[1]))
        cluster = Cluster(nodes=[node("n1", labels={"pool": "x"})], pods=found)
        async with as_pods(made, cluster, StaticToken(TOKEN), "x") as world:
            yield world


@contextlib.asynccontextmanager
async def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    access: Access = request.getfixturevalue("control_plane")
    namespace: str = request.getfixturevalue("namespace")
    with standing(access, namespace) as ground:
        async with served(tmp_path) as made, connect(access.kubeconfig) as kube:
            pool, elsewhere = ground.node("1"), ground.node("2", labels={})
            for name, place in zip(AGENTS, made.places, strict=True):
                ground.pod(name, pool, at=place)
            ground.pod("dead", elsewhere, at=DEAD)
            ground.token(TOKEN)
            token = SecretToken(kube, namespace, WallClock().monotonic)
            async with as_pods(made, kube, token, namespace) as world:
                yield world


async def feed(client: httpx.AsyncClient, name: str, since: float) -> None:
    """Serve one request a second for 16 seconds: 300 tokens, all alike."""
    requests = [[since + second, 1, 300, 10, [11, 12, 13]] for second in range(1, 17)]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    body = {"until": since + 16.5, "requests": requests}
    answer = await client.post(f"{name}/v1/replay", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


WORLDS = {"simulated": simulated, "by address": by_address, "pods": pods, "cluster": cluster}


@pytest.fixture(params=list(WORLDS))
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with WORLDS[request.param](tmp_path, request) as made:
        yield made


async def report_of(world: World, name: str) -> Report:
    report = (await world.agents.reports([name]))[name]
    assert isinstance(report, Report), report
    return report


async def newest_of(world: World, names: Sequence[str]) -> Mapping[str, Counters | Missing]:
    return await world.metrics.newest(await world.agents.reports(names))


async def test_the_agents_that_a_policy_selects_are_found_sorted(world: World) -> None:
    found = await world.agents.discover(world.selecting)

    assert found.agents == tuple(sorted(world.names))
    assert found.pool == PoolSeen()


async def test_agents_that_are_asked_for_are_found_beside_those_selected(world: World) -> None:
    found = await world.agents.discover(world.selecting, also=world.names)

    assert found.agents == tuple(sorted(world.names))


async def test_every_agent_reports_what_it_runs_and_can_change(world: World) -> None:
    reports = await world.agents.reports(world.names)

    assert set(reports) == set(world.names)
    for name in world.names:
        report = await report_of(world, name)
        assert report.running.role is Role.INCUMBENT
        assert report.running.config == cache_config()
        assert all(support.live for support in report.supports)
        assert len(report.supports) == 3
        assert report.counters is not None


async def test_a_dead_agent_is_unreachable_and_hides_no_other(world: World) -> None:
    first, _ = world.names

    reports = await world.agents.reports([first, world.dead])
    answers = await world.agents.push({first: push(), world.dead: push()})

    assert isinstance(reports[first], Report)
    assert answers[first] == Accepted()
    for dead in (reports[world.dead], answers[world.dead]):
        assert isinstance(dead, Unreachable)
        assert url(DEAD) in dead.message


async def test_a_candidate_is_taken_and_reported_under_its_lease(world: World) -> None:
    first, second = world.names

    answers = await world.agents.push({first: push()})

    assert answers == {first: Accepted()}
    running = (await report_of(world, first)).running
    assert (running.role, running.config) == (Role.CANDIDATE, cache_config(ttl=120))
    assert running.incumbent == cache_config()
    assert running.lease_remaining_seconds is not None
    assert 0 < running.lease_remaining_seconds <= 30
    assert (await report_of(world, second)).running.role is Role.INCUMBENT


async def test_a_lease_that_is_not_renewed_ends_in_the_incumbent(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push()})

    world.advance(31.0)

    running = (await report_of(world, first)).running
    assert (running.role, running.config) == (Role.INCUMBENT, cache_config())
    assert running.lease_lapses == 1


async def test_a_lease_that_is_renewed_by_the_same_push_goes_on(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push()})
    world.advance(20.0)

    again = await world.agents.push({first: push()})
    world.advance(20.0)

    assert again == {first: Accepted()}
    assert (await report_of(world, first)).running.role is Role.CANDIDATE


async def test_an_incumbent_push_ends_the_candidate(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push(1)})

    await world.agents.push({first: incumbent_push(2, ttl=60)})

    running = (await report_of(world, first)).running
    assert (running.role, running.config) == (Role.INCUMBENT, cache_config(ttl=60))


@pytest.mark.parametrize(
    ("stale", "reason"),
    [
        (push(9, token=4), "StaleToken"),
        (push(2, token=5), "StaleGeneration"),
        (push(3, token=5, ttl=240), "GenerationReused"),
        (push(1, token=5, uid="other"), "Leased"),
    ],
)
async def test_a_stale_push_is_refused_with_its_reason(world: World, stale: object, reason: str) -> None:
    first, _ = world.names
    await world.agents.push({first: push(3)})

    answer = (await world.agents.push({first: stale}))[first]  # type: ignore[dict-item]  # parametrized

    assert isinstance(answer, Refused)
    assert (answer.status, answer.reason) == (409, reason)
    assert (await report_of(world, first)).running.config == cache_config(ttl=120)


async def test_a_newer_token_is_taken_with_any_generation(world: World) -> None:
    first, _ = world.names
    await world.agents.push({first: push(9)})

    assert await world.agents.push({first: push(1, token=6, ttl=60)}) == {first: Accepted()}
    assert (await report_of(world, first)).running.token == 6


async def test_no_pushes_are_no_error(world: World) -> None:
    assert await world.agents.push({}) == {}


async def test_the_newest_counters_are_of_a_grid_time_that_has_passed(world: World) -> None:
    newest = await newest_of(world, world.names)

    for name in world.names:
        counters = newest[name]
        assert isinstance(counters, Counters), counters
        assert counters.at % 5 == 0
        assert world.now() - 10 < counters.at <= world.now()
        assert counters.requests
        assert counters.prompt_tokens
        assert counters.hit_tokens is not None
        assert counters.ttft is not None
        assert counters.ttft.counts[-1] == pytest.approx(counters.requests)


async def test_counters_of_a_past_grid_time_are_what_they_were(world: World) -> None:
    newest = await newest_of(world, world.names)
    first = newest[world.names[0]]
    assert isinstance(first, Counters)
    world.advance(8.0)

    again = await world.metrics.counters_at(world.names, first.at)

    assert again == newest


async def test_counters_grow(world: World) -> None:
    first, _ = world.names
    newest = (await newest_of(world, [first]))[first]
    assert isinstance(newest, Counters)

    earlier = (await world.metrics.counters_at([first], newest.at - 5))[first]

    assert isinstance(earlier, Counters)
    assert (earlier.requests or 0) < (newest.requests or 0)


async def test_counters_of_the_future_are_missing(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5 + 5) * 5))[first]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


async def test_counters_from_before_the_agents_start_are_a_missed_bound(world: World) -> None:
    first, _ = world.names

    found = (await world.metrics.counters_at([first], (world.now() // 5) * 5 - 100_000))[first]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.BOUND_MISSED


async def test_counters_of_a_dead_agent_are_missing_and_hide_no_other(world: World) -> None:
    first, _ = world.names

    for found in (
        await newest_of(world, [first, world.dead]),
        await world.metrics.counters_at([first, world.dead], world.now() // 5 * 5 - 5),
    ):
        assert isinstance(found[first], Counters)
        dead = found[world.dead]
        assert isinstance(dead, Missing)
        assert dead.reason is MissingReason.UNREACHABLE
