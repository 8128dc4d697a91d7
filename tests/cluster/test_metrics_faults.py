"""A Prometheus that fails in every way, under one operator: said once, nothing rolled back, over by itself.

Each policy asks the same real Prometheus under a path of its own, where it can be made to fail for it alone.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.farm import Herd, short
from tests.cluster.faulty_prometheus import Front, fronted, tls_context
from tests.cluster.shared import Object, Scene, scene
from tests.cluster.web import Page, served
from tests.e2e.processes import KVTUNE, Running, until
from tests.fakes.certificates import self_signed
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

SPAN = "10s"
FAULTS = {
    "unauthorized": "HTTP 401 (credentials are needed or wrong)",
    "page": "HTTP 200 (text/html) is not what a Prometheus answers",
    "broken": "HTTP 503",
    "cut": "/api/v1/query: no HTTP answer",
    "empty": "NoData: empty-1: no sample of kvtune_agent_counters_timestamp_seconds{",
    "nan": "NaN",
    "twice": "AmbiguousResult",
    "skewed": "s ahead of this machine's, so its samples cannot be placed",
}
"""What the front does wrong, and what the condition then says."""

OTHERS = ("stale", "address", "port", "tls", "secret", "replicas")
LIVE = ("hold", "gone")


@pytest.fixture(scope="module")
def shared(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    herds = [Herd(name=name, agents=2 if name == "port" else 1) for name in (*FAULTS, *OTHERS)]
    herds += [Herd(name=name, agents=6) for name in LIVE]
    with scene(control_plane, tmp_path_factory.mktemp("metrics"), *herds) as made:
        yield made
        made.operator.check_no_traceback()
        assert made.operator.stop() == 0


@pytest.fixture(scope="module")
def front(shared: Scene) -> Iterator[Front]:
    with fronted(shared.farm, shared.folder) as made:
        for name in (*FAULTS, "stale"):
            apply(shared, name, f"{made.url}/{name}")
        started(shared, made)
        for name in (*FAULTS, "stale"):
            shared.condition(name, "MetricsAvailable", "True", "Available")
        yield made


def apply(shared: Scene, name: str, address: str, **source: object) -> None:
    """Create a policy that only observes, with a Prometheus at an address."""
    shared.policies.apply(name, mode="Observe", metrics=metrics(address, **source))


def metrics(address: str, **source: object) -> Object:
    """The part `metrics` of a spec."""
    fast = {"scrapeInterval": "2s", "scrapeDelay": "1s", "timeout": "2s"}
    return {"span": SPAN, "prometheus": {"address": address, **fast, **source}}


def started(shared: Scene, front: Front) -> None:
    """Let the two experiments begin, which later lose their Prometheus."""
    for name, seconds in (("hold", "300s"), ("gone", "10s")):
        spec = short(
            metrics=metrics(f"{front.url}/{name}"),
            experiment={"noDataTimeout": seconds, "leaseDuration": "60s"},
        )
        shared.policies.apply(name, **spec)


def told(shared: Scene, says: dict[str, str]) -> None:
    """What is said while there are no metrics: a condition, and one event however many steps are made."""
    for name, text in says.items():
        shared.condition(name, "MetricsAvailable", "False", "NoData")
        said(shared, name, text)
    shared.ticks(3)
    for name in says:
        events = shared.events(name, "NoData")
        assert [(event["count"], event["type"]) for event in events] == [(1, "Warning")], events
        json.dumps(shared.status(name), allow_nan=False)


def test_case_03_06_08_10_14_every_fault_is_a_condition_and_one_event_and_passes_by_itself(
    shared: Scene, front: Front
) -> None:
    front.faults.update({name: name for name in FAULTS})
    told(shared, FAULTS)
    for name in ("unauthorized", "page", "broken", "cut", "skewed"):
        said(shared, name, f"POST {front.url}/{name}/api/v1/query")
    assert "of a highly available pair set replicaLabel" in str(
        shared.policies.condition("twice", "MetricsAvailable")
    )
    front.faults.clear()
    for name in FAULTS:
        shared.condition(name, "MetricsAvailable", "True", "Available")


def test_samples_that_end_are_stale_and_new_ones_are_taken(shared: Scene, front: Front) -> None:
    front.unscraped.add("stale-1")
    told(shared, {"stale": "stale-1: no sample of kvtune_agent_counters_timestamp_seconds{"})
    assert 'pod=~"stale-1"' in shared.policies.condition("stale", "MetricsAvailable")["message"]
    front.unscraped.clear()
    shared.condition("stale", "MetricsAvailable", "True", "Available")


def test_case_04_a_wrong_address_is_said_within_a_step_and_another_is_used_without_a_restart(
    shared: Scene, front: Front
) -> None:
    with served(Page) as port:
        apply(shared, "address", f"http://127.0.0.1:{port}")
        apply(shared, "port", "http://127.0.0.1:1")
        page = shared.condition("address", "MetricsAvailable", "False", "NoData")
        assert "is not what a Prometheus answers" in page["message"]
        refused = shared.condition("port", "MetricsAvailable", "False", "NoData")
        assert "POST http://127.0.0.1:1/api/v1/query: connection refused" in refused["message"]
        assert "measurements: NoData" in shared.columns("port")["WAITING"]
    for name in ("address", "port"):
        edit(shared, name, f"{front.url}/{name}")
        shared.condition(name, "MetricsAvailable", "True", "Available")


def test_a_certificate_that_nobody_vouches_for_is_named(shared: Scene, front: Front, tmp_path: Path) -> None:
    context = tls_context(*self_signed(tmp_path))
    with served(Page, context) as port:
        apply(shared, "tls", f"https://127.0.0.1:{port}")
        found = shared.condition("tls", "MetricsAvailable", "False", "NoData")
        assert f"POST https://127.0.0.1:{port}/api/v1/query: TLS: self" in found["message"]
    edit(shared, "tls", f"{front.url}/tls")
    shared.condition("tls", "MetricsAvailable", "True", "Available")


def test_a_secret_is_used_once_there_is_a_right_to_it_and_it_is_there_and_labelled(
    shared: Scene, front: Front
) -> None:
    front.tokens["secret"] = "open-sesame"
    apply(shared, "secret", f"{front.url}/secret", secret={"name": "prometheus"})
    where = f"spec.metrics.prometheus.secret: Secret {shared.namespace}/prometheus"
    said(shared, "secret", f"{where}: may not get secrets in namespace {shared.namespace}")
    said(
        shared,
        "secret",
        f"(a Role in namespace {shared.namespace} must allow the operator to get this Secret)",
    )
    allow(shared, "prometheus")
    said(shared, "secret", f"{where} does not exist")
    secrets = f"/api/v1/namespaces/{shared.namespace}/secrets"
    body = {"metadata": {"name": "prometheus"}, "stringData": {"token": "open-sesame"}}
    shared.access.call("POST", secrets, body)
    said(shared, "secret", f"{where} lacks the label kvtune.dev/metrics-credentials: it is not used")
    assert not front.asked.get("secret"), "nothing of it was sent anywhere"
    labels = {"metadata": {"labels": {"kvtune.dev/metrics-credentials": "true"}}}
    shared.access.call("PATCH", f"{secrets}/prometheus", labels)
    shared.condition("secret", "MetricsAvailable", "True", "Available")
    everything = json.dumps([shared.status("secret"), shared.events("secret")]) + shared.operator.err
    assert "open-sesame" not in everything


def test_case_14_two_replicas_of_one_prometheus_are_one_source_once_their_label_is_named(
    shared: Scene, front: Front
) -> None:
    front.faults["replicas"] = "twice"
    apply(shared, "replicas", f"{front.url}/replicas", replicaLabel="prometheus")
    shared.condition("replicas", "MetricsAvailable", "True", "Available")
    assert front.asked["replicas"]


def test_case_02_03_a_prometheus_that_is_down_holds_an_experiment_and_one_that_stays_away_ends_it(
    shared: Scene, front: Front
) -> None:
    for name in LIVE:
        exposed(shared, name)
    before = experiment(shared, "hold")["status"].get("rows")
    front.faults.update(dict.fromkeys(LIVE, "broken"))
    until(
        lambda: experiment(shared, "gone")["status"].get("endedAt"),
        "gone ends",
        lambda: shared.context("gone"),
    )
    lost = experiment(shared, "gone")["status"]
    assert (lost["outcome"], lost["reason"]) == ("Inconclusive", "NoData")
    assert not shared.farm.exposed("gone")
    assert {agent["config"]["cacheTTL"] for agent in shared.farm.agents("gone").values()} == {"30s"}

    told(shared, {"hold": "HTTP 503"})
    held = experiment(shared, "hold")["status"]
    assert held.get("outcome") is None and shared.farm.exposed("hold"), "no rollback because of it"
    front.faults.clear()
    until(
        lambda: experiment(shared, "hold")["status"].get("rows") not in (before, held.get("rows")),
        "evidence grows again",
        lambda: shared.context("hold"),
    )
    assert experiment(shared, "hold")["status"].get("outcome") in (None, "Promoted")
    path = shared.folder / "hold.json"
    path.write_text(json.dumps(experiment(shared, "hold")))
    assert Running(shared.folder, "replay", KVTUNE, "replay", path).code() == 0


def said(shared: Scene, name: str, text: str) -> None:
    """Wait until the condition says something."""
    until(
        lambda: text in str(shared.policies.condition(name, "MetricsAvailable").get("message")),
        f"{name}: {text}",
        lambda: shared.context(name),
    )


def exposed(shared: Scene, name: str) -> None:
    """Wait until agents run a candidate."""
    until(lambda: bool(shared.farm.exposed(name)), f"{name} runs", lambda: shared.context(name))


def edit(shared: Scene, name: str, address: str) -> None:
    """Name another Prometheus in a policy."""
    shared.access.call("PATCH", f"{shared.policies.path}/{name}", {"spec": {"metrics": metrics(address)}})


def experiment(shared: Scene, policy: str) -> Object:
    """The first experiment of a policy; empty while there is none."""
    root = shared.policies.path.rpartition("/")[0]
    try:
        return shared.access.call("GET", f"{root}/kvcacheexperiments/{policy}-00001")
    except Answered as error:
        if error.status != 404:
            raise
        return {"status": {}}


def allow(shared: Scene, secret: str) -> None:
    """Let the operator get one Secret, as examples/agent.yaml shows."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{shared.namespace}"
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}
    name = {"metadata": {"name": "kvtune-metrics-credentials"}}
    shared.access.call("POST", f"{root}/roles", {**name, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kvtune-metrics-credentials"}
    subject = {"kind": "ServiceAccount", "name": "kvtune-operator", "namespace": shared.namespace}
    shared.access.call("POST", f"{root}/rolebindings", {**name, "roleRef": role, "subjects": [subject]})
