"""Every way to reach two live agents: simulated, over HTTP by address, and as pods (fake or real cluster)."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
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
from kvtune_operator.adapters.agent_token import SecretToken
from kvtune_operator.adapters.agents import HttpAgents, TokenFile, WriteToken
from kvtune_operator.adapters.fetch import Fetcher, fetching
from kvtune_operator.adapters.inventory import Inventory
from kvtune_operator.adapters.kept import Lister, Timer
from kvtune_operator.adapters.kube import connect
from kvtune_operator.adapters.pods import PodAgents
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Agents, Metrics
from tests.agent.fake_clock import FakeClock as AgentClock
from tests.cluster.ground import APP, standing
from tests.fakes.clock import FakeClock
from tests.fakes.nodes_and_pods import Cluster, Older, StaticToken, node, pod
from tests.fakes.pool import FakeAgents, FakeMetrics, Pool
from tests.fakes.samples import cache_config, policy
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
    """Agents that are a model."""
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
    """The address at which an agent is asked."""
    return "http://{}:{}".format(*place)


@contextlib.asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """Two agents in process, behind HTTP, that have served requests."""
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
    """Agents that are named by their addresses."""
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
    """Served agents that are found as pods."""
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
    """Pods that a fake API server tells of."""
    async with served(tmp_path) as made:
        places = dict(zip(("a2", "a1"), reversed(made.places), strict=True))
        found = [pod(name, ip=ip, number=port, labels=APP) for name, (ip, port) in places.items()]
        found.append(pod("dead", "elsewhere", ip=DEAD[0], number=DEAD[1]))
        cluster = Cluster(nodes=[node("n1", labels={"pool": "x"})], pods=found)
        async with as_pods(made, cluster, StaticToken(TOKEN), "x") as world:
            yield world


@contextlib.asynccontextmanager
async def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Pods of a real API server."""
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
