"""Replicas of the operator on a real API server with live experiments: one held up, one stopped, the last."""

import signal
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.farm import TOKEN, Herd, short
from tests.cluster.operators import Operator
from tests.cluster.world import Object, World, finalizers, world
from tools.controlplane.access import Access
from tools.controlplane.clock import seconds

LEASE_SECONDS = 12.0


def test_experiments_outlive_leaders_and_end_with_the_last_one(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    herds = Herd(name="better"), Herd(name="endless", agents=4, gains={})
    with world(control_plane, namespace, tmp_path, *herds) as there:
        there.apply("better", **short(experiment={"leaseDuration": "60s"}))
        there.apply("endless", **short(experiment={"leaseDuration": "60s", "maxPairs": 3000}))
        first = there.start(f"--lease={LEASE_SECONDS}")
        first.until_stage("Leading")
        second = there.start(f"--lease={LEASE_SECONDS}")
        second.until_stage("Standby")
        for herd in herds:
            there.until_exposed(herd.name)

        second_takes_over_from_one_that_is_held_up(there, first, second)
        shown = standby(there)
        third = there.start(f"--lease={LEASE_SECONDS}")
        there.until(lambda: standby(there) != shown, "the new standby has shown itself")
        for _ in range(2):  # what was being read meanwhile, and what sees the sign
            before = renewed(there)
            there.until(lambda before=before: renewed(there) != before, "the leader has renewed its lease")
        second_hands_over(there, second, third)

        done = there.until_ended("better")
        assert there.outcome(done) == "Promoted(Superior)"
        assert not there.events("better", "LeaseLapsed")
        assert sum(agent["lapses"] for agent in there.farm.agents().values()) == 0
        there.assert_replays(done)

        there.until_exposed("endless")
        the_last_one_restores(there, third)


def second_takes_over_from_one_that_is_held_up(there: World, first: Operator, second: Operator) -> None:
    """Case 27: the lease runs out, agents refuse the old token, and the old leader ends when it is woken."""
    old = max(agent["token"] for agent in there.farm.agents().values())
    first.send(signal.SIGSTOP)
    held = seconds()
    second.until_stage("Leading")
    sys.stdout.write(f"takeover {seconds() - held:.1f} s after SIGSTOP, the lease lasts {LEASE_SECONDS} s\n")
    there.until(lambda: any(held > old for held in tokens(there)), "agents have heard the new leader")
    name = next(name for name, agent in there.farm.agents().items() if agent["token"] > old)
    before = there.farm.agents()[name]

    refused = push(there, name, {**last_push(there, name), "token": old, "generation": 10_000})

    assert refused.status_code == 409
    assert refused.json()["reason"] == "StaleToken"
    first.send(signal.SIGCONT)
    assert first.code() == 1
    assert "lease lost, everything is left as it is" in first.events()
    assert there.farm.agents()[name]["token"] == before["token"]
    assert_no_token_returns(there)


def tokens(there: World) -> set[int]:
    """Fencing tokens that agents hold."""
    return {agent["token"] for agent in there.farm.agents().values()}


def last_push(there: World, name: str) -> dict[str, Any]:
    """The last push that an agent took."""
    return dict([item["push"] for item in there.farm.pushes() if item["agent"] == name][-1])


def push(there: World, name: str, body: dict[str, Any]) -> httpx.Response:
    """Push to an agent as an operator does."""
    ip = there.access.call("GET", f"{there.farm.pods_path}/{name}")["status"]["podIP"]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.put(f"http://{ip}:{there.farm.port}/v1/config", json=body, headers=headers, trust_env=False)


def assert_no_token_returns(there: World) -> None:
    """No agent took a push with a lower token than it had taken before."""
    highest: dict[str, int] = {}
    for item in there.farm.pushes():
        agent, token = item["agent"], item["push"]["token"]
        assert token >= highest.get(agent, 0), item
        highest[agent] = token


def second_hands_over(there: World, second: Operator, third: Operator) -> None:
    """SIGTERM of a leader beside a standby: nothing is restored, the other goes on."""
    asked = seconds()
    assert second.stop() == 0
    assert "another replica stands by: handing over" in second.events()
    third.until_stage("Leading")
    sys.stdout.write(f"handed over {seconds() - asked:.1f} s after SIGTERM\n")
    assert not there.events("better-00001", "ExperimentEnded")


def standby(there: World) -> str:
    """The newest sign of a standby on the lease, be it that of one that leads by now."""
    return str(lease(there)["metadata"]["annotations"]["kvtune.dev/standby"])


def renewed(there: World) -> str:
    """When the leader last renewed its lease; it sees signs of standbys as it does."""
    return str(lease(there)["spec"]["renewTime"])


def lease(there: World) -> Object:
    """The lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{there.namespace}/leases/kvtune-operator"
    return there.access.call("GET", path)


def the_last_one_restores(there: World, last: Operator) -> None:
    """SIGTERM of the only replica: agents are home before it ends, and nothing keeps its objects."""
    assert last.stop() == 0
    assert "no other replica stands by: agents return to their incumbents" in last.events()
    assert there.farm.exposed() == []
    assert there.ttls("endless") == {"30s"}
    ended = there.experiment("endless-00001")
    assert ended is not None
    assert there.outcome(ended) == "Aborted(Shutdown)"
    assert finalizers(ended) == []
    for policy in ("better", "endless"):
        assert finalizers(there.policies.get(policy)) == []
    assert_no_token_returns(there)
