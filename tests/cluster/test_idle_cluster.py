"""A policy at rest costs one GET a step and no write: counted in the API server's own audit log."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from kvtune_operator.clock import WallClock
from tests.cluster.farm import Herd, short
from tests.cluster.shared import Object, Scene, scene, steps
from tests.e2e.processes import until
from tools.controlplane.access import Access

QUIET_SECONDS = 60.0
KEPT = ("empty", "paused", "done", "observing")


@pytest.fixture(scope="module")
def shared(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    herds = [Herd(name=name, agents=2) for name in KEPT if name != "empty"]
    with scene(control_plane, tmp_path_factory.mktemp("idle"), *herds) as made:
        rest = {"metrics": {"span": "15m"}}  # in short spans the noise of these agents is worth being written
        fixed = {"cacheTTL": {"min": "30s", "max": "30s", "start": "30s"}}
        made.policies.apply("empty", **short())
        made.policies.apply("paused", **short(paused=True, **rest))
        made.policies.apply("done", **short(knobs=fixed, **rest))
        made.policies.apply("observing", **short(mode="Observe", **rest))
        made.condition("done", "Experimenting", "False", "NothingToTry")
        made.condition("observing", "Experimenting", "False", "Observing")
        made.condition("paused", "MetricsAvailable", "True", "Available")
        made.condition("empty", "AgentsReady", "False", "NoPods")
        made.ticks(15)
        yield made
        made.operator.check_no_traceback()
        assert made.operator.stop() == 0


def test_case_20_39_policies_at_rest_cause_no_write_in_a_minute_and_one_get_a_step(shared: Scene) -> None:
    before = {name: shared.policies.get(name) for name in KEPT}
    offset, first, clock = size(shared), steps(shared.operator), WallClock()
    began = clock.monotonic()
    until(lambda: clock.monotonic() - began >= QUIET_SECONDS, "a minute has passed")
    made = steps(shared.operator) - first
    calls = counted(shared, offset)
    after = {name: shared.policies.get(name) for name in KEPT}

    writes = {call: count for call, count in calls.items() if call[0] not in ("get", "list", "watch")}
    renewals = writes.pop(("update", "leases"), 0)
    assert not writes, writes
    assert after == before
    for found in after.values():
        assert found is not None
        assert "finalizers" not in found["metadata"] and "annotations" not in found["metadata"]
        assert "kopf" not in json.dumps(found)
    assert made >= 0.9 * QUIET_SECONDS * len(KEPT), "each ticks once a second"
    assert abs(calls["get", "kvcachepolicies"] - made) <= 2 * len(KEPT), "one GET a step"
    assert calls["get", "kvcacheexperiments"] == 0
    assert renewals <= QUIET_SECONDS / 0.8 + 2, "every 2/15 of the lease's 6 s"
    others = {
        call: count
        for call, count in calls.items()
        if call not in {("get", "kvcachepolicies"), ("update", "leases")}
    }
    assert sum(others.values()) <= 30, others


def size(shared: Scene) -> int:
    """How long the audit log is."""
    return shared.access.audit_file.stat().st_size


def counted(shared: Scene, offset: int) -> Counter[tuple[str, str]]:
    """The operator's calls since then: verb and resource."""
    who = f"system:serviceaccount:{shared.namespace}:kvtune-operator"
    with shared.access.audit_file.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode().splitlines()
    calls: list[Object] = [json.loads(line) for line in lines if who in line and line.endswith("}")]
    found: Counter[tuple[str, str]] = Counter()
    for call in calls:
        if call["user"]["username"] == who:
            target = call.get("objectRef", {})
            parts = [target.get("resource", call["requestURI"]), target.get("subresource", "")]
            found[call["verb"], "/".join(part for part in parts if part)] += 1
    return found
