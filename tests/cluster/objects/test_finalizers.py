"""What holds policies and experiments while they live, and lets them go."""

from collections import Counter
from dataclasses import replace

import pytest

from kvtune_api.codec import dump
from kvtune_api.errors import Conflict
from kvtune_api.names import EXPERIMENTS, FINALIZER, Outcome, Phase
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import collection, experiment_path, policy_path
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_operator.adapters.kubernetes_orphans import free_orphans
from tests.cluster.fixtures import Kubectl
from tests.cluster.objects.made import finalizers, made, of, read


async def test_a_policy_is_protected_and_freed_and_other_finalizers_stay(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace)
    other = {"metadata": {"finalizers": ["example.com/other"]}}
    await kube.merge(policy_path(namespace, "chat"), other)

    with pytest.raises(Conflict):
        await objects.protect(policy)
    held = await objects.protect(await read(kube, namespace))
    assert held.metadata.finalizers == ("example.com/other", FINALIZER)
    free = await objects.unprotect(held)

    assert free.metadata.finalizers == ("example.com/other",)
    assert await read(kube, namespace) == free
    await kube.merge(policy_path(namespace, "chat"), {"metadata": {"finalizers": None}})


async def test_an_idle_policy_costs_no_call_but_its_reading(
    kube: Kube, namespace: str, calls: Counter[str], objects: KubernetesObjects
) -> None:
    await made(kube, namespace)

    async def tick() -> Counter[str]:
        calls.clear()
        stored = await objects.policy("chat")
        assert stored is not None
        assert await objects.commands("chat") == ()
        assert await objects.unprotect(stored) == stored
        return calls.copy()

    assert await tick() == {"get": 1, "list": 1}, "one look after a start"
    assert await tick() == {"get": 1}
    assert await tick() == {"get": 1}


async def test_an_experiment_is_kept_until_its_end_and_belongs_to_its_policy(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await objects.protect(await made(kube, namespace))
    assert isinstance(policy, KVCachePolicy)
    live = await objects.put_experiment(of(policy))

    raw = await kube.get(experiment_path(namespace, "chat-1"))
    assert raw is not None
    assert finalizers(raw) == [FINALIZER]
    uid = policy.metadata.uid
    assert raw["metadata"]["labels"] == {"kvtune.dev/policy": "chat", "kvtune.dev/policy-uid": uid}
    assert [held["uid"] for held in raw["metadata"]["ownerReferences"]] == [policy.metadata.uid]
    assert {condition["type"] for condition in raw["status"]["conditions"]} == {
        "Running",
        "Decided",
        "Exposed",
    }
    assert await objects.experiment("chat-1") == live

    assert (await objects.unprotect(policy)).metadata.finalizers is None
    assert finalizers(await kube.get(experiment_path(namespace, "chat-1"))) == []


async def test_a_killed_process_is_followed_by_one_that_frees_what_it_kept(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await objects.protect(await made(kube, namespace))
    assert isinstance(policy, KVCachePolicy)
    await objects.put_experiment(of(policy))

    after = KubernetesObjects(kube, namespace)
    await after.unprotect(await read(kube, namespace))

    assert finalizers(await kube.get(experiment_path(namespace, "chat-1"))) == []
    assert finalizers(await kube.get(policy_path(namespace, "chat"))) == []


async def test_an_experiment_that_a_user_deletes_in_mid_run_is_seen_and_then_freed(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await objects.protect(await made(kube, namespace))
    assert isinstance(policy, KVCachePolicy)
    live = await objects.put_experiment(of(policy))

    await kube.delete(experiment_path(namespace, "chat-1"))
    seen = await objects.experiment("chat-1")
    assert seen is not None
    assert seen.metadata.deletion_timestamp is not None
    assert seen.status == live.status
    ended = replace(seen, status=replace(seen.status, phase=Phase.IDLE, outcome=Outcome.ABORTED))
    await objects.put_experiment(ended)
    await objects.unprotect(policy)

    assert await objects.experiment("chat-1") is None


async def test_experiments_of_a_policy_that_somebody_freed_by_force_are_freed_too(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    policy = await objects.protect(await made(kube, namespace, retention="Orphan"))
    assert isinstance(policy, KVCachePolicy)
    await objects.put_experiment(of(policy))
    await kube.delete(policy_path(namespace, "chat"))
    patch = '{"metadata":{"finalizers":null}}'
    done = kubectl("patch", "kvp", "chat", "-n", namespace, "--type=merge", "-p", patch)
    assert done.returncode == 0, done.stderr

    assert await objects.policy("chat") is None

    assert finalizers(await kube.get(experiment_path(namespace, "chat-1"))) == []


async def test_a_process_that_starts_frees_experiments_whose_policy_is_gone(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace, retention="Orphan")
    await objects.put_experiment(of(policy))
    assert await free_orphans(kube, namespace) == (), "its policy is there"
    await kube.delete(policy_path(namespace, "chat"))

    assert await free_orphans(kube, namespace) == (f"{namespace}/chat-1",)
    assert finalizers(await kube.get(experiment_path(namespace, "chat-1"))) == []
    assert await free_orphans(kube, namespace) == ()


async def test_a_writer_killed_between_experiment_and_status_is_no_obstacle(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace)
    wanted = of(policy)
    await objects.put_experiment(wanted)
    raw = await kube.get(experiment_path(namespace, "chat-1"))
    assert raw is not None
    await kube.replace(f"{experiment_path(namespace, 'chat-1')}/status", {**raw, "status": {}})

    after = KubernetesObjects(kube, namespace)
    left = await after.experiment("chat-1")
    assert left is not None
    assert left.status.phase is Phase.PROPOSED
    stored = await after.put_experiment(wanted)

    assert stored.metadata.uid == left.metadata.uid, "the same experiment goes on"
    assert await after.experiment("chat-1") == stored
    assert stored.status == wanted.status


async def test_another_experiment_takes_the_place_of_one_that_never_began(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace)
    wanted = of(policy)
    body = {
        "apiVersion": "kvtune.dev/v1alpha1",
        "kind": "KVCacheExperiment",
        "metadata": {"name": "chat-1", "finalizers": [FINALIZER]},
        "spec": dump(replace(wanted.spec, seed=8), packed=True),
    }
    await kube.create(collection(namespace, EXPERIMENTS), body)

    stored = await objects.put_experiment(wanted)

    assert stored.spec.seed == 7
    assert await objects.experiment("chat-1") == stored
