"""Policies that an older, laxer definition lets in; definitions that are deleted. A control plane apart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.farm import Herd, short
from tests.cluster.operators import ACCOUNT
from tests.cluster.test_operator_process import ticks
from tests.cluster.world import World, is_live, world
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.crds import CRDS, apply_crds
from tools.controlplane.plane import ControlPlane

LAX = (
    "x-kubernetes-validations",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "enum",
    "required",
)
NAMESPACE = "lax"


def laxer(schema: Any) -> Any:
    """The schema without what it refuses, types aside."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in LAX}
    if "properties" in kept:
        kept["properties"] = {name: laxer(part) for name, part in kept["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = laxer(kept[key])
    return kept


@pytest.fixture(scope="module")
def there(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An operator on a control plane of its own, with definitions that refuse little."""
    folder = tmp_path_factory.mktemp("older-crds")
    crds = folder / "crds"
    crds.mkdir()
    for path in CRDS.glob("*.yaml"):
        document = yaml.safe_load(path.read_text("utf-8"))
        for version in document["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"] = laxer(version["schema"]["openAPIV3Schema"])
        (crds / path.name).write_text(yaml.safe_dump(document), "utf-8")
    with ControlPlane(folder / "plane", controllers=False, scheduler=False, binaries=binaries) as plane:
        access = plane.access
        apply_crds(access, crds)
        access.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = {"metadata": {"name": "default"}}
        access.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        stranger(access)
        herds = [Herd(name=name, agents=2, gains={}) for name in ("edited", "born", "kept")]
        with world(access, NAMESPACE, folder, *herds) as made:
            for name in ("edited", "kept"):
                made.apply(name, **short(experiment={"maxPairs": 3000}))
            made.apply("born", targets={}, **{k: v for k, v in short().items() if k != "targets"})
            made.start().until_stage("Leading")
            yield made
            made.revive()
            assert made.operators[-1].stop() == 0
            assert not any("bug" in operator.err for operator in made.operators)


def stranger(access: Access) -> None:
    """Another operator's peering objects, by which kopf lets itself be frozen unless it is told not to."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for plural, kind, scope in (
        ("clusterkopfpeerings", "ClusterKopfPeering", "Cluster"),
        ("kopfpeerings", "KopfPeering", "Namespaced"),
    ):
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        spec = {"group": "kopf.dev", "scope": scope, "names": names, "versions": [version]}
        access.call("POST", root, {"metadata": {"name": f"{plural}.kopf.dev"}, "spec": spec})
        place = "" if scope == "Cluster" else f"namespaces/{NAMESPACE}/"
        path = f"/apis/kopf.dev/v1/{place}{plural}"
        until(lambda path=path: access.reads(path), f"{path} is served")  # type: ignore[misc]
        lord = {"priority": 1000, "lastseen": "2999-01-01T00:00:00+00:00", "lifetime": 3600}
        peering = {"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"name": "default"}}
        access.call("POST", path, {**peering, "status": {"lord": lord}})


def writes(access: Access, policy: str) -> int:
    """The operator's writes to a policy and its experiments so far."""
    lines = access.audit_file.read_text().splitlines()
    found = [json.loads(line) for line in lines if f":{NAMESPACE}:{ACCOUNT}" in line and '"kvcache' in line]
    reading = ("get", "list", "watch")
    return sum(f"/{policy}" in call["requestURI"] and call["verb"] not in reading for call in found)


def test_a_spec_that_slips_through_is_a_condition_with_its_path_and_no_storm(there: World) -> None:
    refused = there.policies.until_accepted("born", "False")
    assert refused["reason"] == "Invalid"
    assert "spec.targets: at least one target is needed" in refused["message"]
    assert "finalizers" not in (there.policies.get("born") or {})["metadata"]
    there.until(lambda: there.events("born", "Invalid"), "an event")

    there.edit("born", targets={"hitRate": {"min": 0.1}}, paused=True)
    there.policies.until_accepted("born")


def test_a_spec_that_becomes_invalid_in_mid_experiment_ends_it_and_is_then_left_alone(there: World) -> None:
    there.until_exposed("edited")

    there.edit("edited", knobs={"cacheTTL": {"min": "700s"}})

    refused = there.policies.until_accepted("edited", "False")
    assert "spec.knobs.cacheTTL" in refused["message"]
    ended = there.until_ended("edited")
    assert there.outcome(ended) == "Aborted(Superseded)"
    assert there.farm.exposed("edited") == []
    there.until(lambda: not is_live(there.policies.get("edited")), "it is free")
    before, stepped = writes(there.access, "edited"), ticks(there.operators[-1])
    there.until(lambda: ticks(there.operators[-1]) > stepped + 30, "ten ticks of each policy")
    assert writes(there.access, "edited") == before, "an invalid policy costs no write"
    told = there.until(lambda: there.events("edited-00001", "ExperimentEnded"), "an event")
    assert "spec.knobs.cacheTTL" in told[0]
    there.edit("edited", knobs={"cacheTTL": {"min": "30s"}})
    there.policies.until_accepted("edited")


def test_case_32_a_strangers_peering_object_freezes_nothing(there: World) -> None:
    assert there.access.reads("/apis/kopf.dev/v1/clusterkopfpeerings/default")
    there.edit("born", historyLimit=7)

    there.until(lambda: generation_seen(there, "born"), "the edit is handled")
    assert "peer" not in there.operators[-1].err.lower()


def generation_seen(there: World, policy: str) -> bool:
    """Whether the operator has handled the newest spec of a policy."""
    raw = there.policies.get(policy) or {"metadata": {}}
    return bool(there.status(policy).get("observedGeneration") == raw["metadata"].get("generation"))


def test_definitions_that_are_deleted_end_all_and_are_waited_for(there: World) -> None:
    there.until_exposed("kept")

    crds = [f"customresourcedefinition/{path.stem}.kvtune.dev" for path in CRDS.glob("*.yaml")]
    done = there.access.kubectl("delete", *crds, "--timeout=90s", timeout_seconds=100)

    assert done.returncode == 0, done.stderr
    assert there.farm.exposed("kept") == []
    there.until(lambda: there.operators[-1].details()["policies"] == 0, "no task is left")
    apply_crds(there.access)
    there.apply("kept", **short())
    there.policies.until_accepted("kept")
