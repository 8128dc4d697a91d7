"""Ledgers and trials are kept packed, short to people, and within what a server stores."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.ledger import RING_ROWS, Decision
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Pair, PolicyStatus, Trial
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import experiment_path
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from tests.cluster.fixtures import Kubectl
from tests.cluster.objects.made import made, of, read
from tests.fakes import samples
from tests.fakes.clock import ORIGIN

DESCRIBED_LINES = 130


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
