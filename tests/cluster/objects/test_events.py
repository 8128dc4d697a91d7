"""Events are told once, on all objects that they concern, and counted."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from kvtune_api.metadata import Metadata
from kvtune_api.names import Reason
from kvtune_api.status import PolicyStatus
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_tuner.model import Event, EventType
from tests.cluster.fixtures import Kubectl
from tests.cluster.objects.made import STARTED, made, of
from tests.fakes import samples
from tests.fakes.clock import ORIGIN

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
