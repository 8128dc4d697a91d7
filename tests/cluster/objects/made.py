"""Policies and experiments as users and operators make them."""

from dataclasses import replace
from typing import Any

from kvtune_api.codec import dump
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import POLICIES, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import collection
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_tuner.model import Event, EventType
from tests.fakes import samples
from tools.controlplane.access import Access
from tools.controlplane.clock import until

GONE_SECONDS = 60.0
STARTED = Event(type=EventType.NORMAL, reason=Reason.EXPERIMENT_STARTED, message="chat-1: longer TTL")


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


def gone(control_plane: Access, path: str) -> object:
    return until(lambda: not control_plane.reads(path), GONE_SECONDS)
