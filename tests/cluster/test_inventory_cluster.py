"""Nodes and pods of a real API server as pools of agents: changes, gaps, silence, rights that are lacking."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN, Reason
from kvtune_api.operator_config import AgentAccess
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.agent_token import SecretToken
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.inventory import Inventory
from kvtune_operator.adapters.kept import Json, Lister, Patience, Timer
from kvtune_operator.adapters.kube import Kube, connect
from kvtune_operator.adapters.kube_errors import NotAllowed, deed
from kvtune_operator.adapters.kube_errors import failure as failure_of
from kvtune_operator.adapters.pods import PodAgents
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Discovered
from tests.cluster.fixtures import Kubectl
from tests.cluster.ground import Ground, standing
from tests.cluster.relay import Relay
from tests.fakes.leaving import going
from tests.fakes.nodes_and_pods import Older, StaticToken
from tests.fakes.samples import policy
from tools.controlplane.access import Access, write_kubeconfig

S = TypeVar("S")
WAIT_SECONDS = 30.0


@pytest.fixture
def ground(control_plane: Access, namespace: str) -> Iterator[Ground]:
    with standing(control_plane, namespace) as made:
        yield made


@asynccontextmanager
async def agents(kube: Lister, namespace: str, patience: Patience | None = None) -> AsyncIterator[PodAgents]:
    """The agents of a namespace as an operator finds them."""
    clock = WallClock()
    inventory = Inventory(kube, Timer(monotonic=clock.monotonic), patience)
    async with fetching() as fetcher, inventory.of(namespace) as view:
        assert isinstance(kube, Kube | Outdated)
        yield PodAgents(view, fetcher, StaticToken(), rivals=Older(), access=AgentAccess, clock=clock)


async def found(agents: PodAgents, policy: KVCachePolicy, wanted: Callable[[Discovered], bool]) -> Discovered:
    """What is discovered once it is as wanted; that it is not known now is waited for, too."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with contextlib.suppress(Unavailable):
                seen = await agents.discover(policy)
                if wanted(seen):
                    return seen
            await asyncio.sleep(0.02)


async def failure(agents: PodAgents, policy: KVCachePolicy) -> str:
    """Why nothing can be discovered, once that is so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                seen = await agents.discover(policy)
            except Unavailable as error:
                return str(error)
            assert seen.agents == ("a", "b"), "what is not known has not left"
            await asyncio.sleep(0.02)


async def test_pods_come_and_go_and_every_reason_why_there_are_none(kube: Kube, ground: Ground) -> None:
    asked = ground.policy()
    async with agents(kube, ground.namespace) as seen:
        nobody = await seen.discover(asked)
        assert nobody.pool.reason is Reason.NO_NODES

        node = ground.node("1")
        await found(seen, asked, lambda now: now.pool.reason is Reason.NO_PODS)
        ground.pod("wrong", node, port="http")
        wrong = await found(seen, asked, lambda now: now.pool.reason is Reason.NO_PORT)
        assert wrong.pool.message == "1 pod, none has a container port named kvtune; they have: http"
        ground.pod("a", node, ready=False)
        unready = await found(seen, asked, lambda now: now.pool.reason is Reason.PODS_NOT_READY)
        assert unready.agents == ("a",)
        ground.pod("b", node)
        both = await found(seen, asked, lambda now: now.pool.reason is None)
        assert both.agents == ("a", "b")
        assert seen.address_of("b") == "http://127.0.0.2:9402"
        ground.remove("a")
        await found(seen, asked, lambda now: now.agents == ("b",) and not now.pool.leaving)


async def test_a_pod_that_is_deleted_and_one_that_is_evicted_are_about_to_leave(
    kube: Kube, ground: Ground
) -> None:
    node = ground.node("1")
    for name in ("a", "b", "c"):
        ground.pod(name, node)
    async with agents(kube, ground.namespace) as seen:
        await found(seen, ground.policy(), lambda now: len(now.agents) == 3)
        ground.access.call("DELETE", f"{ground.pods_path}/a")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}
        ground.access.call("POST", f"{ground.pods_path}/b/eviction", eviction)

        two = await found(seen, ground.policy(), lambda now: len(now.pool.leaving) == 2)

    assert {name: leaving.why for name, leaving in two.pool.leaving.items()} == {
        "a": "its pod is being deleted",
        "b": "its pod is being evicted (EvictionByEvictionAPI)",
    }
    assert two.agents == ("a", "b", "c")


async def test_a_node_that_is_drained_takes_its_agents_out(
    kube: Kube, ground: Ground, kubectl: Kubectl
) -> None:
    first, second = ground.node("1"), ground.node("2")
    ground.pod("a", first)
    ground.pod("b", second)
    async with agents(kube, ground.namespace) as seen:
        await found(seen, ground.policy(), lambda now: len(now.agents) == 2)
        assert kubectl("cordon", first).returncode == 0
        cordoned = await found(seen, ground.policy(), lambda now: bool(now.pool.leaving))
        kubectl("drain", first, "--force", "--timeout=1s")
        evicted = going("its pod is being evicted (EvictionByEvictionAPI)")
        drained = await found(seen, ground.policy(), lambda now: now.pool.leaving.get("a") == evicted)

    assert cordoned.pool.leaving == {"a": going(f"node {first} is cordoned")}
    assert drained.pool.leaving == {"a": evicted}


class Outdated:
    """The real API server, but the first watch of pods comes too late: something happened, and then 410.

    A cache of changes that has overflowed cannot be had on order.
    """

    def __init__(self, kube: Kube, meanwhile: Callable[[], None]) -> None:
        self._kube = kube
        self._meanwhile: Callable[[], None] | None = meanwhile
        self.lists = 0

    async def reduced(self, path: str, read: Callable[[Json], S]) -> tuple[tuple[S, ...], str]:
        """The real list."""
        self.lists += path.endswith("/pods")
        return await self._kube.reduced(path, read)

    def watch(self, path: str, *, resource_version: str, seconds: float) -> AsyncIterator[tuple[str, Json]]:
        """The real watch, but for the first of pods."""
        if path.endswith("/pods") and self._meanwhile is not None:
            self._meanwhile()
            self._meanwhile = None
            raise failure_of(deed("watch", path), 410, b'{"message": "too old resource version"}')
        return self._kube.watch(path, resource_version=resource_version, seconds=seconds)

    async def get(self, path: str) -> Json | None:
        """An object."""
        return await self._kube.get(path)

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return await self._kube.create(path, body)


async def test_a_pod_that_vanished_in_a_gap_is_forgotten_when_the_version_is_too_old(
    kube: Kube, ground: Ground
) -> None:
    node = ground.node("1")
    ground.pod("a", node)
    ground.pod("b", node)
    server = Outdated(kube, lambda: ground.remove("a"))
    async with agents(server, ground.namespace) as seen:
        await found(seen, ground.policy(), lambda now: now.agents == ("b",))

    assert server.lists == 2


@asynccontextmanager
async def relayed(access: Access, folder: Path) -> AsyncIterator[tuple[Relay, Kube]]:
    """The API server behind a relay, and a client with little patience."""
    async with Relay(int(access.url.rpartition(":")[2])).open() as relay:
        path = folder / "relayed.kubeconfig"
        url = f"https://127.0.0.1:{relay.port}"
        write_kubeconfig(path, url=url, ca_file=access.ca_file, token=access.admin_token)
        async with connect(path, timeout_seconds=1.0) as kube:
            yield relay, kube


IMPATIENT = Patience(watch_seconds=1.0, stale_seconds=4.0)


async def test_an_api_server_that_freezes_makes_agents_unknown_and_never_gone(
    control_plane: Access, ground: Ground, tmp_path: Path
) -> None:
    node = ground.node("1")
    ground.pod("a", node)
    ground.pod("b", node)
    async with (
        relayed(control_plane, tmp_path) as (relay, kube),
        agents(kube, ground.namespace, IMPATIENT) as seen,
    ):
        await found(seen, ground.policy(), lambda now: now.agents == ("a", "b"))
        relay.freeze()
        ground.remove("a")
        why = await failure(seen, ground.policy())
        assert "last heard of" in why
        relay.thaw()

        await found(seen, ground.policy(), lambda now: now.agents == ("b",))


async def test_a_connection_that_is_cut_loses_no_change(
    control_plane: Access, ground: Ground, tmp_path: Path
) -> None:
    node = ground.node("1")
    ground.pod("a", node)
    async with (
        relayed(control_plane, tmp_path) as (relay, kube),
        agents(kube, ground.namespace) as seen,
    ):
        await found(seen, ground.policy(), lambda now: now.agents == ("a",))
        relay.cut()
        ground.remove("a")
        ground.pod("b", node)

        await found(seen, ground.policy(), lambda now: now.agents == ("b",))


def role(access: Access, namespace: str, account: str, rules: list[Any]) -> None:
    """Give rights in a namespace."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    access.call("POST", f"{path}/roles", {"metadata": {"name": account}, "rules": rules})
    access.call(
        "POST",
        f"{path}/rolebindings",
        {
            "metadata": {"name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        },
    )


async def test_a_namespaced_operator_sees_pods_but_no_nodes(
    control_plane: Access, ground: Ground, tmp_path: Path
) -> None:
    namespace = ground.namespace
    ground.pod("a", ground.node("1"))
    path = control_plane.kubeconfig_for("default", namespace, tmp_path)
    async with connect(path) as kube, agents(kube, namespace) as seen:
        nothing = await seen.discover(policy())
        assert nothing.pool.reason is Reason.FORBIDDEN
        assert f"may not list pods in namespace {namespace}" in nothing.pool.message

        read = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
        role(control_plane, namespace, "default", [read])
        await found(seen, policy(), lambda now: now.agents == ("a",))
        by_node = await seen.discover(ground.policy())

    assert by_node.pool.reason is Reason.FORBIDDEN
    assert "may not list nodes in the cluster" in by_node.pool.message
    assert "spec.selector.nodes" in by_node.pool.message


async def test_the_write_token_is_filled_in_once_and_is_read_by_name_alone(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    path = control_plane.kubeconfig_for("default", namespace, tmp_path)
    async with connect(path) as kube:
        with pytest.raises(NotAllowed, match=f"may not get secrets in namespace {namespace}"):
            await SecretToken(kube, namespace, lambda: 0.0).current()
        by_name = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [AGENT_TOKEN_SECRET],
            "verbs": ["get", "patch"],
        }
        role(control_plane, namespace, "default", [by_name])
        empty = {"name": AGENT_TOKEN_SECRET, "labels": {LABEL_AGENT_TOKEN: "true"}}
        control_plane.call("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": empty})
        made = await SecretToken(kube, namespace, lambda: 0.0).current()
        again = await SecretToken(kube, namespace, lambda: 0.0).current()

    assert made == again
    stored = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/secrets/{AGENT_TOKEN_SECRET}")
    assert list(stored["data"]) == ["token"]
