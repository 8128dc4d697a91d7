"""Whose experiments are: deleted policies, retention, history, older policies, namespaces that go."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from kvtune_api.codec import dump
from kvtune_api.names import EXPERIMENTS
from kvtune_api.policy import KVCachePolicy, Retention
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kube_errors import Terminating
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
from kvtune_operator.adapters.kubernetes_forms import collection, experiment_path, owner, policy_path
from kvtune_operator.adapters.kubernetes_objects import WRITES_A_TICK, KubernetesObjects
from tests.cluster.objects.made import STARTED, finalizers, gone, made, of, read
from tests.fakes.clock import ORIGIN
from tools.controlplane.access import Access


@pytest.mark.parametrize("retention", [Retention.DELETE, Retention.ORPHAN])
async def test_experiments_of_a_deleted_policy_go_or_stay_as_asked(
    control_plane: Access, kube: Kube, namespace: str, objects: KubernetesObjects, retention: Retention
) -> None:
    policy = await objects.protect(await made(kube, namespace, retention=str(retention)))
    assert isinstance(policy, KVCachePolicy)
    await objects.put_experiment(of(policy))

    await kube.delete(policy_path(namespace, "chat"))
    waits = await objects.policy("chat")
    assert waits is not None
    assert waits.metadata.deletion_timestamp is not None, "our finalizer keeps it"
    assert await objects.protect(waits) == waits
    await objects.unprotect(waits)

    assert await objects.policy("chat") is None
    experiment = experiment_path(namespace, "chat-1")
    if retention is Retention.DELETE:
        assert gone(control_plane, experiment)
    else:
        kept = await kube.get(experiment)
        assert kept is not None
        assert "ownerReferences" not in kept["metadata"]
        assert finalizers(kept) == []
    assert await objects.unprotect(waits) == waits, "nothing is left to free"


async def test_an_edited_retention_counts_for_the_experiments_that_are_there(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace)
    await objects.put_experiment(of(policy))
    await objects.unprotect(policy)
    await kube.merge(policy_path(namespace, "chat"), {"spec": {"retention": "Orphan"}})

    await objects.unprotect(await read(kube, namespace))

    raw = await kube.get(experiment_path(namespace, "chat-1"))
    assert raw is not None
    assert "ownerReferences" not in raw["metadata"]


async def test_three_hundred_old_experiments_are_pruned_a_few_a_tick(
    kube: Kube, namespace: str, calls: Counter[str], objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace, historyLimit=280)
    old, path = of(policy, rows=0), collection(namespace, EXPERIMENTS)
    head = {"apiVersion": "kvtune.dev/v1alpha1", "kind": "KVCacheExperiment"}
    owned = {
        "labels": {"kvtune.dev/policy": "chat"},
        "ownerReferences": [owner("chat", policy.metadata.uid or "")],
    }

    async def create(number: int) -> None:
        spec = dump(replace(old.spec, number=number), packed=True)
        await kube.create(path, {**head, "metadata": {"name": f"chat-{number}", **owned}, "spec": spec})

    for first in range(1, 301, 20):
        await asyncio.gather(*(create(number) for number in range(first, first + 20)))

    deletions = []
    for _ in range(4):
        calls.clear()
        await objects.unprotect(policy)
        deletions.append(calls["delete"])

    assert deletions == [WRITES_A_TICK, WRITES_A_TICK, 0, 0]
    assert await objects.experiments("chat") == tuple(f"chat-{number}" for number in range(21, 301))
    calls.clear()
    await objects.unprotect(policy)
    assert not calls


async def test_experiments_of_an_older_policy_of_the_name_are_left_alone(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    older = await made(kube, namespace, retention="Orphan")
    for number in (1, 2):
        await objects.put_experiment(of(older, number))
    await kube.delete(policy_path(namespace, "chat"))
    policy = await made(kube, namespace, historyLimit=1)
    for number in (3, 4):
        await objects.put_experiment(of(policy, number))

    await objects.unprotect(policy)

    assert await objects.experiments("chat") == ("chat-1", "chat-2", "chat-4")
    for name in ("chat-1", "chat-2"):
        kept = await kube.get(experiment_path(namespace, name))
        assert kept is not None
        assert "ownerReferences" not in kept["metadata"]
        assert finalizers(kept) == [], "nobody else would free it"


async def test_a_namespace_that_goes_away_takes_nothing_new_and_lets_go_of_what_is_freed(
    control_plane: Access, kube: Kube, namespace: str
) -> None:
    namespace += "-going"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    objects = KubernetesObjects(kube, namespace)
    policy = await objects.protect(await made(kube, namespace))
    assert isinstance(policy, KVCachePolicy)
    await objects.put_experiment(of(policy))
    events = KubernetesEvents(kube)
    await kube.delete(f"/api/v1/namespaces/{namespace}")

    with pytest.raises(Terminating):
        await objects.put_experiment(of(policy, number=2))
    await events.record(policy, [STARTED], ORIGIN)
    assert events.failed == 1

    held = await objects.policy("chat")
    assert held is not None
    live = await objects.experiment("chat-1")
    assert live is not None
    await objects.put_experiment(replace(live, status=replace(live.status, message="ended")))
    await objects.unprotect(held)
    assert gone(control_plane, f"/api/v1/namespaces/{namespace}")
    assert await objects.policy("chat") is None
