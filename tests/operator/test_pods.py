"""Agents as pods: found in the inventory, asked at their pods' addresses, known by their names."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from kvtune_api.codec import canonical
from kvtune_api.errors import Unavailable
from kvtune_api.names import Reason
from kvtune_api.operator_config import AgentAccess
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Report
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.inventory import NODES, Inventory
from kvtune_operator.adapters.kept import Json, Patience, Timer
from kvtune_operator.adapters.kube_errors import NotAllowed
from kvtune_operator.adapters.pods import PodAgents
from kvtune_operator.ports import Accepted, Unreachable
from kvtune_tuner.model import PoolSeen
from tests.fakes.clock import FakeClock
from tests.fakes.leaving import not_ready
from tests.fakes.nodes_and_pods import Cluster, Hours, Older, StaticToken, pod
from tests.fakes.pool import Pool
from tests.fakes.samples import cache_config, policy, push
from tests.fakes.servers import hearing
from tests.fakes.sim import PoolSettings

APP = {"app": "chat"}
CHAT = {"agents": {"matchLabels": APP}}
H200 = {"nodes": {"matchLabels": {"gpu": "h200"}}}


@dataclass(slots=True)
class World:
    """Agents as pods over a cluster, and its inventory."""

    cluster: Cluster
    agents: PodAgents
    inventory: Inventory


@asynccontextmanager
async def world(
    cluster: Cluster, *, rivals: Sequence[KVCachePolicy] = (), access: AgentAccess | None = None
) -> AsyncIterator[World]:
    hours = Hours()
    timer = Timer(monotonic=hours.monotonic, sleep=hours.sleep)
    inventory = Inventory(cluster, timer, Patience(first_seconds=5.0))
    async with fetching(timeout_seconds=5.0) as fetcher, inventory.of("x") as view:
        agents = PodAgents(
            view,
            fetcher,
            StaticToken(),
            rivals=Older(rivals),
            access=lambda: access or AgentAccess(),
            clock=FakeClock(),
        )
        yield World(cluster, agents, inventory)


async def test_the_agents_of_a_policy_are_its_pods_sorted_with_all_that_is_seen_of_them() -> None:
    cluster = Cluster(pods=[pod("b", labels=APP), pod("a", labels=APP, ready=False), pod("other")])
    async with world(cluster) as made:
        found = await made.agents.discover(policy(selector={**CHAT, **H200}))

    assert found.agents == ("a", "b")
    assert found.pool == PoolSeen(leaving={"a": not_ready()})


async def test_without_agents_the_reason_is_told() -> None:
    async with world(Cluster()) as made:
        found = await made.agents.discover(policy(selector=CHAT))

    assert found.agents == ()
    assert (found.pool.reason, found.pool.message) == (
        Reason.NO_PODS,
        "no pod with labels app=chat in namespace x",
    )


async def test_agents_that_may_run_a_candidate_are_found_whatever_their_labels_say_now() -> None:
    cluster = Cluster(
        pods=[
            pod("a", labels=APP),
            pod("b"),
            pod("no-port", port="web"),
            pod("other"),
            pod("z", phase="Failed"),
        ]
    )
    async with world(cluster) as made:
        found = await made.agents.discover(policy(selector=CHAT), also=("b", "gone", "no-port", "a", "z"))

    assert found.agents == ("a", "b")


async def test_agents_of_an_older_policy_are_contested_and_not_ours() -> None:
    cluster = Cluster(pods=[pod("a", labels=APP), pod("b"), pod("c", "n2", labels=APP, ready=False)])
    rivals = [policy("first", selector=CHAT), policy("second", selector={**CHAT, **H200})]
    async with world(cluster, rivals=rivals) as made:
        found = await made.agents.discover(policy())

    assert found.agents == ("b",)
    assert found.pool == PoolSeen(contested={"a": "first", "c": "first"})


async def test_without_a_right_to_see_nodes_a_policy_without_node_labels_works() -> None:
    cluster = Cluster(nodes=NotAllowed("may not list nodes in the cluster"), pods=[pod("a")])
    async with world(cluster, rivals=[policy("older", selector=H200)]) as made:
        found = await made.agents.discover(policy())

    assert found.agents == ("a",)
    assert found.pool == PoolSeen()


@pytest.mark.parametrize("what", ["nodes", "pods"])
async def test_a_right_that_is_lacking_is_a_reason(what: str) -> None:
    cluster = Cluster(pods=[pod("a")])
    setattr(cluster, what, NotAllowed(f"may not list {what}"))
    async with world(cluster) as made:
        found = await made.agents.discover(policy(selector=H200))

    assert found.agents == ()
    assert found.pool.reason is Reason.FORBIDDEN
    assert f"may not list {what}" in found.pool.message


@pytest.mark.parametrize("what", ["nodes", "pods"])
async def test_while_an_experiment_is_live_agents_that_may_not_be_seen_have_not_left(what: str) -> None:
    cluster = Cluster(pods=[pod("a")])
    setattr(cluster, what, NotAllowed(f"may not list {what}"))
    live = replace(policy(selector=H200), status=PolicyStatus(experiment="chat-00001"))
    async with world(cluster) as made:
        with pytest.raises(Unavailable, match=f"may not list {what}"):
            await made.agents.discover(live)


async def test_watches_begin_with_the_first_policy_of_a_namespace_and_end_with_the_last() -> None:
    cluster = Cluster(pods=[pod("a")])
    async with world(cluster) as made:
        async with made.inventory.of("y") as first:
            async with made.inventory.of("y") as second:
                assert second.pods is first.pods
                assert await second.pods.records()
            await cluster.settled()
            assert list(made.inventory.namespaces) == ["x", "y"]
            assert cluster.open_watches == {NODES, pods_of("x"), pods_of("y")}
        assert list(made.inventory.namespaces) == ["x"]
        assert cluster.open_watches == {NODES, pods_of("x")}

    assert cluster.open_watches == set()


def pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def report(name: str) -> Report:
    pool = Pool(PoolSettings(), config=cache_config())
    found = pool.report(pool.names()[0], PoolSettings().start)
    assert isinstance(found, Report)
    return replace(found, agent=name)


@asynccontextmanager
async def served(*names: str) -> AsyncIterator[list[Json]]:
    """Pods of agents that answer with their names; one that is called `thief` has the address of another."""

    def answer(name: str) -> tuple[bytes, bytes]:
        return canonical(report(name)).encode(), canonical(report(name).running).encode()

    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            asked, pushed = answer(name)

            async def hear(
                head: dict[str, str], body: bytes, asked: bytes = asked, pushed: bytes = pushed
            ) -> tuple[int, bytes]:
                return 200, pushed if body else asked

            address = await stack.enter_async_context(hearing(hear))
            port = int(address.rpartition(":")[2])
            found.append(pod(name, ip="127.0.0.1", number=port))
        yield found


async def test_agents_are_asked_and_pushed_to_at_their_pods_addresses() -> None:
    async with served("a", "b") as pods, world(Cluster(pods=pods)) as made:
        names = (await made.agents.discover(policy())).agents
        reports = await made.agents.reports(names)
        answers = await made.agents.push({"a": push()})

    assert reports == {"a": report("a"), "b": report("b")}
    assert answers == {"a": Accepted()}


async def test_another_agent_at_a_pods_address_is_not_taken_for_it() -> None:
    async with served("a") as pods:
        pods[0]["metadata"]["name"] = "b"
        async with world(Cluster(pods=pods)) as made:
            names = (await made.agents.discover(policy())).agents
            found = (await made.agents.reports(names))["b"]

    assert isinstance(found, Unreachable)
    assert "another agent, a, answers there, not b" in found.message


async def test_a_pod_without_an_address_is_unreachable_with_its_state() -> None:
    cluster = Cluster(pods=[pod("a", ip="", ready=False, phase="Pending", waiting="ContainerCreating")])
    async with world(cluster) as made:
        names = (await made.agents.discover(policy())).agents
        found = await made.agents.reports([*names, "b"])
        sent = await made.agents.push({"a": push()})

    nowhere = Unreachable(message="pod a: has no address: ContainerCreating")
    assert found == {"a": nowhere, "b": Unreachable(message="pod b: is gone")}
    assert sent == {"a": nowhere}


async def test_the_token_is_not_sent_over_plain_http_to_a_pod() -> None:
    async with world(Cluster(pods=[pod("a", ip="10.0.0.7")])) as made:
        await made.agents.discover(policy())
        sent = (await made.agents.push({"a": push()}))["a"]

    assert isinstance(sent, Unreachable)
    assert "http://10.0.0.7:9402: the token is not sent over plain http" in sent.message


@pytest.mark.parametrize(
    ("ip", "access", "address"),
    [
        ("10.0.0.7", AgentAccess(), "http://10.0.0.7:9402"),
        ("10.0.0.7", AgentAccess(tls=True), "https://10.0.0.7:9402"),
        ("fd00::7", AgentAccess(tls=True), "https://[fd00::7]:9402"),
    ],
)
async def test_the_address_of_an_agent(ip: str, access: AgentAccess, address: str) -> None:
    async with world(Cluster(pods=[pod("a", ip=ip)]), access=access) as made:
        await made.agents.discover(policy())
        assert made.agents.address_of("a") == address


class NoToken(StaticToken):
    """A token that cannot be had."""

    def __init__(self, error: Unavailable) -> None:
        self._error = error

    async def current(self, *, refused: str | None = None) -> str:
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotAllowed("may not get secrets"), Reason.FORBIDDEN),
        (Unavailable("the label is lacking"), Reason.NO_TOKEN),
    ],
)
async def test_without_a_token_the_pool_cannot_be_tuned_and_says_why(
    error: Unavailable, reason: Reason
) -> None:
    async with world(Cluster(pods=[pod("a", labels=APP)])) as made:
        made.agents._token = NoToken(error)
        found = await made.agents.discover(policy(selector=CHAT))
        watched = await made.agents.discover(policy(selector=CHAT, mode="Observe"))

    assert found.agents == ("a",)
    assert (found.pool.reason, found.pool.message) == (reason, str(error))
    assert watched.pool.reason is None


async def test_the_token_is_made_before_anything_is_pushed_for_others_wait_for_it() -> None:
    class Asked(StaticToken):
        times = 0

        async def current(self, *, refused: str | None = None) -> str:
            self.times += 1
            return "word"

    token = Asked()
    async with world(Cluster(pods=[pod("a", labels=APP)])) as made:
        made.agents._token = token
        await made.agents.discover(policy(selector=CHAT))

    assert token.times == 1
