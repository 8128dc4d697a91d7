"""An adapter of policies and experiments on the real API server, and what it calls."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from kvtune_operator.adapters.kube import Kube, connect
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from tools.controlplane.access import Access


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
