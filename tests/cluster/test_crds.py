"""The CRDs on a real API server: established, documented, defaulted, with columns that a person can read."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvtune_api.codec import dump, parse_known
from kvtune_api.packing import pack
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.documents import read_policy
from tests.cluster.fixtures import Kubectl
from tests.cluster.wrong_policies import document
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

ROOT = Path(__file__).resolve().parents[2]
CRDS = ("kvcachepolicies", "kvcacheexperiments")
GROUP = "/apis/kvtune.dev/v1alpha1"
POLICIES = sorted(
    path.name
    for path in (ROOT / "examples").glob("*.yaml")
    if path.name != "invalid.yaml" and "kind: KVCachePolicy" in path.read_text()
)


def test_there_are_example_policies() -> None:
    assert {"chat.yaml", "minimal.yaml", "quick.yaml"} <= set(POLICIES)


@pytest.mark.parametrize("plural", CRDS)
def test_a_definition_is_established_and_structural(plural: str, control_plane: Access) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kvtune.dev"
    conditions = control_plane.call("GET", path)["status"]["conditions"]

    assert {each["type"]: each["status"] for each in conditions} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


@pytest.mark.parametrize("plural", CRDS)
def test_the_server_knows_the_definition_as_it_is_written(plural: str, control_plane: Access) -> None:
    """An API server drops what it does not know: nothing of the schema may be lost."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kvtune.dev"
    written = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())

    held = control_plane.call("GET", path)["spec"]["versions"]

    assert held == written["spec"]["versions"]


def test_short_names_and_the_category(kubectl: Kubectl, namespace: str) -> None:
    for name in ("kvp", "kvx", "kvp,kvx", "kvtune"):
        done = kubectl("get", name, "-n", namespace)
        assert done.returncode == 0, done.stderr
        assert "No resources found" in done.stderr


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("kvcachepolicy.spec.knobs", "How long an idle block is kept below the device."),
        ("kvcachepolicy.spec.knobs.cacheTTL", "No experiment changes the knob by more than this factor."),
        ("kvcachepolicy.spec.mode", "ENUM: Observe Recommend Auto AATest"),
        ("kvp.status.waitingFor", "Why the phase waits, with numbers."),
        ("kvx.spec.candidate", "What is tried."),
        ("kvx.status.evidence", "Evidence that the candidate is better."),
    ],
)
def test_kubectl_explain_is_documentation(path: str, words: str, kubectl: Kubectl) -> None:
    done = kubectl("explain", path)

    assert words in " ".join(done.stdout.split())
    assert "<no description>" not in done.stdout


@pytest.mark.parametrize("name", POLICIES)
def test_an_example_is_accepted_and_reads_back_as_it_was_meant(
    name: str, kubectl: Kubectl, namespace: str
) -> None:
    done = kubectl("apply", "-n", namespace, "-f", ROOT / "examples" / name)
    assert done.returncode == 0, done.stderr

    held = json.loads(kubectl("get", "kvp", "-n", namespace, "-o", "json").stdout)["items"][0]

    meant = read_policy(ROOT / "examples" / name).spec
    assert parse_known(KVCachePolicy, {**held, "metadata": {"name": "x"}}).spec == meant


def test_defaults_are_written_into_the_object(control_plane: Access, namespace: str) -> None:
    held = created(control_plane, namespace, document())["spec"]

    assert held["mode"] == "Auto"
    assert held["targets"]["ttft"] == {"limit": "250ms", "quantile": 0.95}
    assert held["experiment"]["window"] == {"min": "120s", "max": "10m"}
    assert held["experiment"]["leaseDuration"] == "30s"
    assert held["objective"]["prices"] == {"memory": 0, "evictionPass": 0, "bytesDown": 0}
    assert held["metrics"] == {"source": "Auto", "span": "5m"}
    assert "selector" not in held, "an object with nothing inside is not written"


def test_a_part_that_is_written_gets_the_defaults_of_the_rest(control_plane: Access, namespace: str) -> None:
    held = created(control_plane, namespace, document(experiment={"alpha": 0.1}))["spec"]["experiment"]

    assert (held["alpha"], held["maxPairs"], held["washout"]) == (0.1, 24, {"min": "20s", "max": "30m"})


def test_a_field_that_no_version_knows_is_refused_by_kubectl(kubectl: Kubectl, namespace: str) -> None:
    policy = yaml.safe_dump(document(pause=True))

    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=policy)

    assert done.returncode != 0
    assert 'strict decoding error: unknown field "spec.pause"' in done.stderr


def test_the_columns_of_a_policy_fit_a_terminal(
    control_plane: Access, namespace: str, kubectl: Kubectl
) -> None:
    made = created(control_plane, namespace, document())
    with_status(control_plane, namespace, "kvcachepolicies", made, POLICY_STATUS)

    narrow = kubectl("get", "kvp", "-n", namespace).stdout.splitlines()
    wide = kubectl("get", "kvp", "-n", namespace, "-o", "wide").stdout.splitlines()

    assert " ".join(narrow[0].split()) == "NAME PHASE TTFT HITRATE EXPERIMENT LASTOUTCOME AGE WAITING"
    assert "chat   Measuring   53.8% <250ms (90%)   37.1% (78%)   chat-7       chat-6 Rejected" in narrow[1]
    assert narrow[1].endswith("window 2 of 12 ends in 95s")
    assert len(narrow[1].partition("window 2")[0]) <= 110
    assert " ".join(wide[0].split()[8:]) == "READY AGENTS TTL RATIO HOST EVICTION POWER ESTIMATEDEND STARTED"
    assert wide[1].split()[-8:] == ["19", "20", "340s", "0.15", "210Gi", "0.84", "2026-11-30T12:00:00Z", "7"]


def test_the_columns_of_an_experiment(control_plane: Access, namespace: str, kubectl: Kubectl) -> None:
    made = created_experiment(control_plane, namespace)
    with_status(control_plane, namespace, "kvcacheexperiments", made, EXPERIMENT_STATUS)

    narrow = kubectl("get", "kvx", "-n", namespace).stdout.splitlines()
    wide = kubectl("get", "kvx", "-n", namespace, "-o", "wide").stdout.splitlines()

    assert " ".join(narrow[0].split()) == "NAME POLICY PHASE OUTCOME REASON EFFECT E-VALUE DELTAS AGE"
    assert "chat     Watching   Promoted   Superior   +2.1 [+1.0, +3.2]   34.1/20   12/24" in narrow[1]
    assert " ".join(wide[0].split()[9:]) == "TTL RATIO HOST EVICTION STRATEGY WHY"
    shown = " ".join(wide[1].replace("<none>", "").split())
    assert shown.endswith("120s 0.15 57Gi Ladder next step up"), "its candidate sets no eviction policy"


@pytest.mark.parametrize(
    "change",
    [
        {"number": 8},
        {"why": "another reason"},
        {"candidate": {"cacheTTL": "90s"}},
        {"policySpec": "AAAA"},
    ],
)
def test_the_spec_of_an_experiment_never_changes(
    change: dict[str, Any], control_plane: Access, namespace: str
) -> None:
    made = created_experiment(control_plane, namespace)
    path = f"{GROUP}/namespaces/{namespace}/kvcacheexperiments/{made['metadata']['name']}"

    with pytest.raises(Answered, match="an experiment's spec never changes: it holds what is judged"):
        control_plane.call("PATCH", path, {"spec": change})


def test_an_experiments_spec_is_kept_to_the_byte(control_plane: Access, namespace: str) -> None:
    """No defaults, nothing pruned: what is judged is what was written."""
    assert created_experiment(control_plane, namespace)["spec"] == EXPERIMENT_SPEC


def test_a_status_of_a_newer_version_can_be_written(control_plane: Access, namespace: str) -> None:
    made = created(control_plane, namespace, document())
    newer = {"phase": "Pondering", "conditions": [{"type": "Enlightened", "status": "True", "reason": "New"}]}

    held = with_status(control_plane, namespace, "kvcachepolicies", made, newer)

    assert held["status"] == newer


def test_the_status_of_a_policy_reads_back(control_plane: Access, namespace: str) -> None:
    made = created(control_plane, namespace, document())
    held = with_status(control_plane, namespace, "kvcachepolicies", made, POLICY_STATUS)

    status = parse_known(KVCachePolicy, {**held, "metadata": {"name": "x"}}).status

    assert status is not None
    assert POLICY_STATUS.items() <= dump(status, packed=True).items()


# What is written

POLICY_STATUS: dict[str, Any] = {
    "phase": "Measuring",
    "waitingFor": "window 2 of 12 ends in 95s",
    "shown": {"ttft": "53.8% <250ms (90%)", "hitRate": "37.1% (78%)"},
    "experiment": "chat-7",
    "lastOutcome": "chat-6 Rejected(HarmObjective)",
    "agents": 20,
    "agentsReady": 19,
    "incumbent": {"cacheTTL": "340s", "evictionRatio": 0.15, "tiers": {"hostMemory": "210Gi"}},
    "power": 0.84,
    "estimatedEnd": "2026-11-30T12:00:00Z",
    "experimentsStarted": 7,
}
EXPERIMENT_SPEC: dict[str, Any] = {
    "policy": "chat",
    "policyUID": "3a0e",
    "policySpec": pack({**document()["spec"], "ofTheFuture": {"deep": [1, {"a": None}]}}),
    "policyHash": "aa",
    "number": 7,
    "incumbent": {"cacheTTL": "60s", "tiers": {}},
    "candidate": {"cacheTTL": "120s", "evictionRatio": 0.15, "tiers": {"hostMemory": "57Gi"}},
    "strategy": "Ladder",
    "why": "next step up",
    "seed": 7,
    "pairs": [{"first": "a", "second": "b"}],
    "pairing": "bb",
    "maxPairs": 24,
    "runIn": False,
}
EXPERIMENT_STATUS: dict[str, Any] = {
    "phase": "Watching",
    "outcome": "Promoted",
    "reason": "Superior",
    "shown": {"effect": "+2.1 [+1.0, +3.2]", "eValue": "34.1/20", "deltas": "12/24"},
}


def created(control_plane: Access, namespace: str, policy: dict[str, Any]) -> dict[str, Any]:
    """The policy as the API server holds it."""
    return control_plane.call("POST", f"{GROUP}/namespaces/{namespace}/kvcachepolicies", policy)


def created_experiment(control_plane: Access, namespace: str) -> dict[str, Any]:
    """An experiment as the API server holds it."""
    whole = {
        "apiVersion": "kvtune.dev/v1alpha1",
        "kind": "KVCacheExperiment",
        "metadata": {"name": "chat-7"},
        "spec": EXPERIMENT_SPEC,
    }
    return control_plane.call("POST", f"{GROUP}/namespaces/{namespace}/kvcacheexperiments", whole)


def with_status(
    control_plane: Access, namespace: str, plural: str, made: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    """The object after its status was replaced."""
    path = f"{GROUP}/namespaces/{namespace}/{plural}/{made['metadata']['name']}/status"
    return control_plane.call("PUT", path, {**made, "status": status})
