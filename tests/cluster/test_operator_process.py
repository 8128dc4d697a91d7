"""The operator's process on a real API server, as its own ServiceAccount: accepts, idles, hands over."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cluster.operators import Operator, Policies, rights
from tests.cluster.proxy import proxied
from tests.e2e.processes import until
from tools.controlplane.access import Access

Start = Callable[..., Operator]


@pytest.fixture
def start(control_plane: Access, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Start replicas in the test's namespace; none is left running."""
    made: list[Operator] = []

    def begin(name: str = "one", *args: object, url: str | None = None) -> Operator:
        made.append(Operator(control_plane, namespace, tmp_path / name, name, *args, url=url))
        return made[-1]

    with rights(control_plane, namespace):
        try:
            yield begin
        finally:
            for operator in made:
                operator.clean_up()


@pytest.fixture
def policies(control_plane: Access, namespace: str) -> Policies:
    return Policies(control_plane, namespace)


def test_a_policy_is_accepted_and_then_left_alone(start: Start, policies: Policies) -> None:
    operator = start()
    operator.until_stage("Leading")
    policies.apply("idle")
    policies.until_accepted("idle")
    before = policies.get("idle")
    ticked = ticks(operator)
    until(lambda: ticks(operator) >= ticked + 10, "it has ticked ten times", lambda: operator.err[-2000:])
    after = policies.get("idle")

    assert before is not None and after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert "finalizers" not in after["metadata"]
    assert "annotations" not in after["metadata"]
    assert operator.ready()
    assert operator.stop() == 0
    assert not problems(operator)


def ticks(operator: Operator) -> float:
    """How many steps it has made."""
    text = httpx.get(f"{operator.address}/metrics", trust_env=False).text
    name = "kvtune_tick_duration_seconds_count "
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), 0.0)


def problems(operator: Operator) -> list[str]:
    """Lines of its log that a person would have to read."""
    return [line for line in operator.err.splitlines() if '"WARNING"' in line or '"ERROR"' in line]


def test_a_policy_that_was_there_before_is_taken_up_and_one_that_is_deleted_is_left(
    start: Start, policies: Policies, control_plane: Access
) -> None:
    policies.apply("early")
    operator = start()
    policies.until_accepted("early")
    control_plane.call("DELETE", f"{policies.path}/early")

    until(lambda: operator.details()["policies"] == 0, "its task has ended", lambda: operator.err[-2000:])
    assert policies.get("early") is None
    assert operator.stop() == 0


def test_a_standby_follows_a_leader_that_was_killed(start: Start, policies: Policies) -> None:
    leader = start("leader")
    leader.until_stage("Leading")
    standby = start("standby")
    standby.until_stage("Standby")
    assert standby.ready()
    leader.kill_9()
    standby.until_stage("Leading")
    policies.apply("after")

    policies.until_accepted("after")
    assert standby.stop() == 0


def test_a_leader_that_is_stopped_hands_over_at_once(
    start: Start, control_plane: Access, namespace: str
) -> None:
    leader = start("leader")
    leader.until_stage("Leading")
    standby = start("standby")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kvtune-operator"

    def annotations() -> dict[str, str]:
        return dict(control_plane.call("GET", lease)["metadata"].get("annotations", {}))

    signs: set[str] = set()

    def shown_twice() -> bool:
        """Whether the standby has renewed its sign: only then has the leader surely seen one that is new."""
        signs.update(filter(None, [annotations().get("kvtune.dev/standby")]))
        return len(signs) > 1

    until(shown_twice, "the standby has shown itself twice")
    first = int(annotations()["kvtune.dev/fencing-token"])

    assert leader.stop() == 0
    assert "another replica stands by: handing over" in leader.events()
    standby.until_stage("Leading")
    assert int(annotations()["kvtune.dev/fencing-token"]) > first
    assert standby.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_standby_stops_at_once(start: Start, number: signal.Signals) -> None:
    leader = start("leader")
    leader.until_stage("Leading")
    standby = start("standby")
    standby.until_stage("Standby")

    assert standby.stop(number) == 0
    assert leader.alive


def test_a_lease_that_another_takes_ends_the_process_with_1(
    start: Start, control_plane: Access, namespace: str
) -> None:
    operator = start()
    operator.until_stage("Leading")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kvtune-operator"
    control_plane.call("PATCH", lease, {"spec": {"holderIdentity": "a-stranger"}})

    assert operator.code() == 1
    assert control_plane.call("GET", lease)["spec"]["holderIdentity"] == "a-stranger"


def test_a_missing_right_is_named_once_and_waited_for(
    control_plane: Access, namespace: str, tmp_path: Path, start: Start
) -> None:
    binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kvtune-operator-{namespace}"
    held = control_plane.call("GET", binding)
    control_plane.call("DELETE", binding)
    operator = start()
    operator.until_said("may not list kvcachepolicies in namespace")
    assert not operator.ready()
    body = {key: held[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
    root = binding.rsplit("/", 1)[0]
    control_plane.call("POST", root, body | {"metadata": {"name": held["metadata"]["name"]}})

    operator.until_stage("Leading")
    assert operator.ready()
    assert len([line for line in problems(operator) if "may not list kvcachepolicies" in line]) == 1
    assert operator.stop() == 0


def test_settings_are_read_live_and_what_is_wrong_is_an_event(
    start: Start, control_plane: Access, namespace: str
) -> None:
    root = f"/api/v1/namespaces/{namespace}/configmaps"
    name = "kvtune-operator"
    control_plane.call(
        "POST", root, {"metadata": {"name": name}, "data": {"config.yaml": "maxExperiments: 2"}}
    )
    operator = start()
    operator.until_said("settings read")
    control_plane.call("PATCH", f"{root}/{name}", {"data": {"config.yaml": "maxExperiments: many"}})
    operator.until_said("invalid settings")
    events = f"/api/v1/namespaces/{namespace}/events"

    def told() -> str | None:
        found = control_plane.call("GET", events)["items"]
        return next(
            (item["message"] for item in found if item["involvedObject"]["kind"] == "ConfigMap"), None
        )

    message = until(told, "there is an event")
    assert "maxExperiments: 'many'" in message
    assert "the last valid ones stay in force" in message
    assert operator.stop() == 0


def test_an_api_server_that_freezes_costs_the_lease_and_the_standby_goes_on(
    start: Start, control_plane: Access, policies: Policies
) -> None:
    with proxied(control_plane.url) as proxy:
        leader = start("leader", url=proxy.url)
        leader.until_stage("Leading")
        standby = start("standby")
        standby.until_stage("Standby")
        proxy.freeze()

        assert leader.code() == 1
        assert "lease lost, everything is left as it is" in leader.events()
        standby.until_stage("Leading")
        policies.apply("after")
        policies.until_accepted("after")
        assert standby.stop() == 0


def test_the_namespaced_form_gives_every_right_that_an_idle_policy_needs(
    control_plane: Access, namespace: str, tmp_path: Path, policies: Policies
) -> None:
    policies.apply("idle")
    with rights(control_plane, namespace, "operator-namespaced.yaml"):
        operator = Operator(control_plane, namespace, tmp_path, "namespaced")
        try:
            policies.until_accepted("idle")
            assert operator.stop() == 0
            assert not problems(operator)
        finally:
            operator.clean_up()
