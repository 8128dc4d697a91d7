"""Policies, experiments and events on the real API server: what only it can show."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kvtune_api.codec import dump
from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import RING_ROWS, Decision
from kvtune_api.metadata import Metadata
from kvtune_api.names import EXPERIMENTS, FINALIZER, POLICIES, Outcome, OutcomeReason, Phase, Reason
from kvtune_api.policy import KVCachePolicy, Retention
from kvtune_api.status import Pair, PolicyStatus, Trial
from kvtune_api.units import Duration
from kvtune_operator.adapters.kube import Kube, connect
from kvtune_operator.adapters.kube_errors import Terminating
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
from kvtune_operator.adapters.kubernetes_forms import collection, experiment_path, owner, policy_path
from kvtune_operator.adapters.kubernetes_objects import WRITES_A_TICK, KubernetesObjects
from kvtune_operator.adapters.kubernetes_orphans import free_orphans
from kvtune_operator.ports import Stored
from kvtune_tuner.model import Event, EventType, Verb
from tests.cluster.fixtures import Kubectl
from tests.fakes import samples
from tests.fakes.clock import ORIGIN
from tools.controlplane.access import Access
from tools.controlplane.clock import until

GONE_SECONDS = 60.0
DESCRIBED_LINES = 130


@pytest.fixture
def calls() -> Counter[str]:
    return Counter()


@pytest.fixture
async def kube(control_plane: Access, calls: Counter[str]) -> AsyncIterator[Kube]:
    def count(verb: str, resource: str) -> None:
        calls[verb] += 1

    async with connect(control_plane.kubeconfig, on_call=count) as client:
        yield client


@pytest.fixture
def objects(kube: Kube, namespace: str) -> KubernetesObjects:
    return KubernetesObjects(kube, namespace)


async def made(kube: Kube, namespace: str, **spec: Any) -> KVCachePolicy:
    """A policy that a user has applied, as another process reads it."""
    await kube.create(collection(namespace, POLICIES), dump(samples.policy(**spec)))
    return await read(kube, namespace)


async def read(kube: Kube, namespace: str) -> KVCachePolicy:
    found = await KubernetesObjects(kube, namespace).policy("chat")
    assert isinstance(found, KVCachePolicy)
    return found


def of(policy: KVCachePolicy, number: int = 1, rows: int = 4) -> KVCacheExperiment:
    """A running experiment of this very policy."""
    experiment = samples.experiment(f"chat-{number}", number=number, rows=rows)
    spec = replace(experiment.spec, policy_uid=policy.metadata.uid or "", policy_spec=policy.spec)
    return replace(experiment, spec=spec)


def finalizers(raw: dict[str, Any] | None) -> list[str]:
    assert raw is not None
    return list(raw["metadata"].get("finalizers") or [])


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


def gone(control_plane: Access, path: str) -> object:
    return until(lambda: not control_plane.reads(path), GONE_SECONDS)


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


async def test_users_command_by_kubectl_annotate(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    await made(kube, namespace)
    wishes = (
        "kvtune.dev/abort=chat-1",
        "kvtune.dev/approve=chat-2",
        "kvtune.dev/resume=please",
        'kvtune.dev/try={"cacheTTL": "90s"}',
    )
    done = kubectl("annotate", "kvp", "chat", "-n", namespace, *wishes)
    assert done.returncode == 0, done.stderr

    commands = await objects.commands("chat")

    assert [(command.verb, command.target) for command in commands] == [
        (Verb.ABORT, "chat-1"),
        (Verb.APPROVE, "chat-2"),
        (Verb.RESUME, ""),
        (Verb.TRY, ""),
    ]
    assert commands[3].config == CacheConfig(cache_ttl=Duration("90s"))
    await kubectl_annotate(kubectl, namespace, "kvtune.dev/abort=chat-3")
    await objects.forget(commands)
    left = await objects.commands("chat")
    assert [command.target for command in left] == ["chat-3"], "what was changed meanwhile stays"


async def kubectl_annotate(kubectl: Kubectl, namespace: str, wish: str) -> None:
    done = kubectl("annotate", "kvp", "chat", "-n", namespace, wish, "--overwrite")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "wish", ["90s", "{", "<&>", "é\x7f", '{"cacheTTL": "soon"}', '{"colour": 1}', "", "[" * 5000]
)
async def test_a_command_that_cannot_be_read_is_told_of_once_and_removed(
    kube: Kube, namespace: str, wish: str
) -> None:
    told: list[Event] = []

    async def tell(policy: Stored, event: Event) -> None:
        assert policy.metadata.name == "chat"
        told.append(event)

    objects = KubernetesObjects(kube, namespace, tell=tell)
    await made(kube, namespace)
    await kube.merge(policy_path(namespace, "chat"), {"metadata": {"annotations": {"kvtune.dev/try": wish}}})

    assert await objects.commands("chat") == ()
    assert await objects.commands("chat") == ()

    assert [event.type for event in told] == [EventType.WARNING]
    assert told[0].message.startswith("try: ")


async def test_a_status_that_cannot_be_read_is_kept_and_told_of(
    kube: Kube, namespace: str, kubectl: Kubectl
) -> None:
    told: list[Event] = []

    async def tell(policy: Stored, event: Event) -> None:
        told.append(event)

    objects = KubernetesObjects(kube, namespace, tell=tell)
    policy = await made(kube, namespace)
    await objects.put_policy_status(policy, PolicyStatus(agents=6))
    path = f"{policy_path(namespace, 'chat')}/status"
    raw = await kube.get(path)
    assert raw is not None
    await kube.replace(path, {**raw, "status": {**raw["status"], "trials": "nonsense"}})

    with pytest.raises(Unavailable, match=r"policy chat: .* kept as it is: status\.trials: "):
        await objects.policy("chat")

    assert [event.reason for event in told] == [Reason.INVALID]
    patch = '{"status":null}'
    done = kubectl(
        "patch", "kvp", "chat", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )
    assert done.returncode == 0, done.stderr
    assert (await read(kube, namespace)).status is None


def full(policy: KVCachePolicy) -> KVCacheExperiment:
    """An experiment whose ring is as full as a ring gets."""
    experiment = of(policy, rows=RING_ROWS)
    values = {"objective": 1.2345678, "ttft": 0.987654321, "hitRate": 3.21}
    decisions = tuple(
        Decision(
            block=block + 1, attempt=0, deltas=block, verdict="Continue", reason="MinPairs", e_values=values
        )
        for block in range(RING_ROWS)
    )
    ended = replace(
        experiment.status,
        decisions=decisions,
        outcome=Outcome.REJECTED,
        reason=OutcomeReason.MAX_PAIRS,
        ended_at=ORIGIN,
    )
    pairs = tuple(Pair(first=f"cache-{pair}a", second=f"cache-{pair}b") for pair in range(8))
    return replace(experiment, spec=replace(experiment.spec, pairs=pairs), status=ended)


async def test_a_full_ledger_survives_packed_and_stays_short_to_people(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    policy = await made(kube, namespace)
    written = await objects.put_experiment(full(policy))

    assert await objects.experiment("chat-1") == written
    raw = await kube.get(experiment_path(namespace, "chat-1"))
    assert raw is not None
    assert isinstance(raw["status"]["rows"], str)
    assert len(json.dumps(raw)) < 600_000
    shown = kubectl("describe", "kvx", "chat-1", "-n", namespace)
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) < DESCRIBED_LINES


async def test_a_policy_remembers_its_trials_packed(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    policy = await made(kube, namespace)
    trials = tuple(trial(number) for number in range(1, 301))

    written = await objects.put_policy_status(policy, PolicyStatus(trials=trials, agents=6))

    assert await read(kube, namespace) == written
    shown = kubectl("describe", "kvp", "chat", "-n", namespace)
    assert len(shown.stdout.splitlines()) < 150


def trial(number: int) -> Trial:
    return Trial(
        experiment=f"chat-{number}",
        number=number,
        candidate=samples.cache_config(ttl=30.0 + number),
        incumbent=samples.cache_config(),
        strategy="Ladder",
        outcome=Outcome.REJECTED,
        reason=OutcomeReason.MAX_PAIRS,
        ended_at=ORIGIN + timedelta(minutes=number),
    )


async def test_a_status_that_is_too_large_says_so(
    kube: Kube, namespace: str, objects: KubernetesObjects
) -> None:
    policy = await made(kube, namespace)
    experiment = await objects.put_experiment(of(policy))
    slots = {f"http://agent-{number}:1": float(number) for number in range(60_000)}
    huge = replace(experiment, status=replace(experiment.status, restarted=slots))

    with pytest.raises(Unavailable, match=r"kvcacheexperiments/chat-1/status: [0-9]+ bytes are too large"):
        await objects.put_experiment(huge)

    assert await objects.experiment("chat-1") == experiment


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


STARTED = Event(type=EventType.NORMAL, reason=Reason.EXPERIMENT_STARTED, message="chat-1: longer TTL")
ENDED = Event(type=EventType.NORMAL, reason=Reason.EXPERIMENT_ENDED, message="chat-1: Promoted")
NO_PODS = Event(type=EventType.WARNING, reason=Reason.NO_PODS, message="no pod matches")


async def test_an_experiments_events_are_told_on_policy_and_experiment(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    policy = await made(kube, namespace)
    await objects.put_experiment(of(policy))
    running = replace(policy, status=PolicyStatus(experiment="chat-1"))
    events = KubernetesEvents(kube)

    await events.record(running, [STARTED, NO_PODS], ORIGIN)
    await events.record(policy, [ENDED], ORIGIN)

    for kind, name, lines in (
        ("kvp", "chat", {"ExperimentStarted", "ExperimentEnded", "NoPods"}),
        ("kvx", "chat-1", {"ExperimentStarted", "ExperimentEnded"}),
    ):
        shown = kubectl("describe", kind, name, "-n", namespace).stdout.partition("\nEvents:")[2]
        assert {
            word for word in shown.split() if word in {"ExperimentStarted", "ExperimentEnded", "NoPods"}
        } == (lines), shown
        assert "kvtune-operator" in shown


async def test_equal_events_are_counted_once_a_minute_and_also_by_the_next_process(
    kube: Kube, namespace: str, calls: Counter[str]
) -> None:
    there = Metadata(name="chat", namespace=namespace, uid="uid-chat")
    policy = replace(samples.policy(), metadata=there)
    first = KubernetesEvents(kube)
    for second in range(0, 125, 5):
        await first.record(policy, [NO_PODS], ORIGIN + timedelta(seconds=second))
    assert calls == {"create": 1, "patch": 2}

    await KubernetesEvents(kube).record(policy, [NO_PODS], ORIGIN + timedelta(seconds=130))

    held = [item async for item in kube.pages(f"/api/v1/namespaces/{namespace}/events")]
    assert [item["count"] for item in held] == [26]


async def test_a_long_message_is_cut_where_a_letter_ends(kube: Kube, namespace: str) -> None:
    there = Metadata(name="chat", namespace=namespace, uid="uid-chat")
    events = KubernetesEvents(kube)

    await events.record(
        replace(samples.policy(), metadata=there), [replace(NO_PODS, message="x" + "é" * 1000)], ORIGIN
    )

    held = [item async for item in kube.pages(f"/api/v1/namespaces/{namespace}/events")]
    assert held[0]["message"] == "x" + "é" * 511
    assert events.failed == 0
