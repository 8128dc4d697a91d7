"""Every right of the operator is needed: without any one of them something fails and says which.

Each right is taken from an operator of its own, in a namespace of its own; the operators run in parallel.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvtune_api.errors import SpecError
from kvtune_api.metadata import Metadata
from kvtune_api.names import Reason
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Invalid
from kvtune_tuner.model import Event, EventType
from tests.cluster.farm import Farm, Herd, farm, opt_in
from tests.cluster.operators import Operator, rights
from tests.cluster.places import Place
from tests.cluster.rights import AGENT_USES, USES, Right, granted
from tests.cluster.shared import Object, fresh_namespace
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

KVTUNE, CORE, LEASES = "kvtune.dev", "", "coordination.k8s.io"
AT_ONCE = 7
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/{}"
CLUSTER_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/{}"


def nothing(place: Place) -> None:
    """Nothing more is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What to do so that a right is missed, and where users are told of it."""

    prepare: Callable[[Place], object] = Place.idle
    meanwhile: Callable[[Place], object] = nothing
    event: str = ""
    """Policy with an event that names the right."""

    condition: str = ""
    """Policy whose condition AgentsReady names the right."""


LACKS = {
    Right(KVTUNE, "kvcachepolicies", "get"): Lack(),
    Right(KVTUNE, "kvcachepolicies", "list"): Lack(),
    Right(KVTUNE, "kvcachepolicies", "watch"): Lack(),
    Right(KVTUNE, "kvcachepolicies", "patch"): Lack(prepare=Place.live, event="live"),
    Right(KVTUNE, "kvcachepolicies/status", "update"): Lack(event="idle"),
    Right(KVTUNE, "kvcachepolicies/finalizers", "update"): Lack(prepare=Place.live, event="live"),
    Right(KVTUNE, "kvcacheexperiments", "get"): Lack(prepare=Place.live, event="live"),
    Right(KVTUNE, "kvcacheexperiments", "list"): Lack(event="idle"),
    Right(KVTUNE, "kvcacheexperiments", "create"): Lack(prepare=Place.live, event="live"),
    Right(KVTUNE, "kvcacheexperiments", "patch"): Lack(
        prepare=Place.live, meanwhile=Place.abort, event="live"
    ),
    Right(KVTUNE, "kvcacheexperiments", "delete"): Lack(prepare=Place.old),
    Right(KVTUNE, "kvcacheexperiments/status", "update"): Lack(prepare=Place.live, event="live"),
    Right(CORE, "events", "create"): Lack(),
    Right(CORE, "events", "get"): Lack(),
    Right(CORE, "events", "patch"): Lack(),
    Right(CORE, "pods", "list"): Lack(condition="idle"),
    Right(CORE, "pods", "watch"): Lack(),
    Right(CORE, "nodes", "list"): Lack(prepare=Place.by_nodes, condition="by-nodes"),
    Right(CORE, "nodes", "watch"): Lack(prepare=Place.by_nodes),
    Right(LEASES, "leases", "create"): Lack(),
    Right(LEASES, "leases", "get"): Lack(),
    Right(LEASES, "leases", "update"): Lack(),
    Right(CORE, "configmaps", "get"): Lack(),
    Right(CORE, "secrets", "get"): Lack(prepare=Place.untold, condition="live"),
    Right(CORE, "secrets", "patch"): Lack(prepare=Place.untold, condition="live"),
}


def test_every_right_of_the_examples_is_tried() -> None:
    assert set(LACKS) == {*USES, *AGENT_USES}
    assert granted("agent.yaml") == set(AGENT_USES)


@pytest.fixture(scope="module")
def agents(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder = tmp_path_factory.mktemp("agents")
    with (
        fresh_namespace(control_plane) as namespace,
        farm(control_plane, namespace, folder, Herd(name="agent", agents=2)) as made,
    ):
        yield made


async def test_without_any_one_right_something_fails_and_says_which(
    control_plane: Access, agents: Farm, kube: Kube, tmp_path: Path
) -> None:
    events = KubernetesEvents(kube)

    async def earlier(place: Place) -> None:
        """Tell, as an earlier operator did, the event that this one will tell."""
        held = (place.policies.get("idle") or {})["metadata"]
        about = Metadata(name="idle", namespace=place.namespace, uid=held["uid"])
        policy = Invalid(metadata=about, status=None, error=SpecError())
        message = f"no pod with labels app=none in namespace {place.namespace}"
        event = Event(type=EventType.WARNING, reason=Reason.NO_PODS, message=message)
        await events.record(policy, (event,), WallClock().now())

    for first in range(0, len(LACKS), AT_ONCE):
        batch = list(LACKS)[first : first + AT_ONCE]
        with ExitStack() as stack:
            cases = []
            for right in batch:
                namespace = stack.enter_context(fresh_namespace(control_plane))
                place = Place(access=control_plane, namespace=namespace, farm=agents)
                stack.enter_context(rights(control_plane, namespace))
                opt_in(control_plane, namespace, namespace)
                take_away(control_plane, namespace, right)
                LACKS[right].prepare(place)
                if right.resource == "events" and right.verb != "create":
                    await earlier(place)
                name = f"{right.verb}-{right.resource.replace('/', '-')}"
                operator = Operator(control_plane, namespace, tmp_path / name, name)
                stack.callback(operator.clean_up)
                cases.append((right, place, operator))
            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(lambda case: missed(*case), cases))


def take_away(access: Access, namespace: str, right: Right) -> None:
    """Remove one verb from the roles of an operator."""
    places = (
        CLUSTER_ROLE.format(f"kvtune-operator-{namespace}"),
        ROLE.format(namespace, "kvtune-operator"),
        ROLE.format(namespace, "kvtune-agent-token"),
    )
    removed = 0
    for path in places:
        role = access.call("GET", path)
        for rule in role["rules"]:
            if (
                right.group in rule["apiGroups"]
                and right.resource in rule["resources"]
                and right.verb in rule["verbs"]
            ):
                rule["verbs"].remove(right.verb)
                removed += 1
        role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
        access.call("PUT", path, role)
    assert removed == 1, right


def missed(right: Right, place: Place, operator: Operator) -> None:
    """Wait until the operator says what it may not do: in a condition, or in its log (and an event)."""
    lack = LACKS[right]
    where = "in the cluster" if right.resource == "nodes" else f"in namespace {place.namespace}"
    text = f"may not {right.verb} {right.resource} {where}"
    in_words_of_the_server = f'cannot {right.verb} resource \\"{right.resource}\\"'  # told by kopf

    def named() -> bool:
        with suppress(Answered):
            lack.meanwhile(place)
        return lack.condition != "" or text in operator.err or in_words_of_the_server in operator.err

    until(named, f"it says {text}", lambda: operator.err[-6000:])
    if lack.event:
        until(
            lambda: any(text in message for message in place.told(lack.event, "Forbidden")),
            f"an event says {text}",
            lambda: operator.err[-3000:],
        )
    if lack.condition:
        until(
            lambda: text in str(place.policies.condition(lack.condition, "AgentsReady").get("message")),
            f"a condition says {text}",
            lambda: operator.err[-3000:],
        )
    operator.check_no_traceback()
    operator.kill_9()


@pytest.mark.parametrize("example", ["operator.yaml", "operator-namespaced.yaml"])
def test_with_all_rights_an_experiment_runs_to_its_end_and_nothing_is_refused(
    control_plane: Access, agents: Farm, namespace: str, tmp_path: Path, example: str
) -> None:
    place = Place(access=control_plane, namespace=namespace, farm=agents)
    with rights(control_plane, namespace, example):
        opt_in(control_plane, namespace, namespace)
        place.old()
        place.by_nodes()
        place.live()
        operator = Operator(control_plane, namespace, tmp_path, "operator")
        try:
            until(lambda: ended(place), "an experiment ends", lambda: operator.err[-3000:])
            until(
                lambda: len(experiments_of(place, "idle")) == 1, "old ones go", lambda: operator.err[-3000:]
            )
            assert place.policies.condition("by-nodes", "AgentsReady")["reason"] == "NoNodes"
            assert operator.stop() == 0
        finally:
            operator.clean_up()
    assert "HTTP 403" not in operator.err and "forbidden" not in operator.err.lower()
    assert not refused(control_plane, namespace)


def ended(place: Place) -> bool:
    """Whether the experiment has come to its end, which a user asked for."""
    place.abort()
    return any(item.get("status", {}).get("endedAt") for item in experiments_of(place, "live"))


def experiments_of(place: Place, policy: str) -> Sequence[Object]:
    """The experiments of a policy."""
    return list(place.access.query(place.experiments, labelSelector=f"kvtune.dev/policy={policy}")["items"])


def refused(access: Access, namespace: str) -> list[str]:
    """Calls of the operator of a namespace that the API server has refused with 403."""
    who = f"system:serviceaccount:{namespace}:kvtune-operator"
    calls = [json.loads(line) for line in access.audit_file.read_text().splitlines() if who in line]
    return [
        f"{call['verb']} {call['requestURI']}"
        for call in calls
        if call["user"]["username"] == who and call.get("responseStatus", {}).get("code") == 403
    ]
