"""Operators, one farm and many policies in one namespace: what the tests of lives and kills stand on."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvtune_api.names import FINALIZER
from kvtune_operator.cluster import LOST
from tests.cluster.farm import Farm, Herd, farm
from tests.cluster.operators import Operator, Policies, rights
from tests.e2e.processes import KVTUNE, Running, until
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

Object = dict[str, Any]
SETTINGS = "maxExperiments: 100\n"
PATIENT_LEASE_SECONDS = 15.0
"""Not lost on a machine that is busy with other tests."""


class World:
    """The namespace of a test: its agents, its policies, its operators."""

    def __init__(self, access: Access, namespace: str, folder: Path, agents: Farm) -> None:
        self.access = access
        self.namespace = namespace
        self.folder = folder
        self.farm = agents
        self.policies = Policies(access, namespace)
        self.operators: list[Operator] = []
        self._told: tuple[object, ...] = ()
        self.others: Farm | None = None
        """The agents of a second namespace, where a test has one."""

        self.kvx = f"/apis/kvtune.dev/v1alpha1/namespaces/{namespace}/kvcacheexperiments"

    def elsewhere(self) -> "World":
        """The second namespace."""
        assert self.others is not None
        return World(self.access, self.others.namespace, self.folder, self.others)

    def start(self, *args: object) -> Operator:
        """Start one more operator."""
        name = f"operator-{len(self.operators) + 1}"
        lease = f"--lease={PATIENT_LEASE_SECONDS}"
        made = Operator(self.access, self.namespace, self.folder / name, name, lease, *args)
        self.operators.append(made)
        self._told = args
        return made

    def revive(self) -> None:
        """Start the newest operator again where a busy machine has cost its lease, as a kubelet does.

        One that was killed stays so; any other end fails the test.
        """
        code = self.operators[-1].process.poll() if self.operators else None
        assert code in (None, LOST, -signal.SIGKILL), f"the operator ended with {code}: {self.describe()}"
        if code == LOST:
            self.start(*self._told)

    def apply(self, herd: str, **spec: Any) -> None:
        """Create the policy of a herd."""
        self.policies.apply(herd, **spec)

    def edit(self, policy: str, **spec: Any) -> None:
        """Merge into a policy's spec, as `kubectl patch --type=merge` does."""
        self.access.call("PATCH", f"{self.policies.path}/{policy}", {"spec": spec})

    def annotate(self, policy: str, **wishes: str | None) -> None:
        """Set our annotations: abort, approve, resume, try_."""
        notes = {f"kvtune.dev/{key.rstrip('_')}": value for key, value in wishes.items()}
        self.access.call("PATCH", f"{self.policies.path}/{policy}", {"metadata": {"annotations": notes}})

    def kubectl(self, *args: object, stdin: str | None = None) -> str:
        """Run kubectl in the namespace; it must succeed."""
        done = self.access.kubectl(*args, "-n", self.namespace, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self, policy: str) -> Object:
        """A policy's status; empty while there is none."""
        return dict((self.policies.get(policy) or {}).get("status", {}))

    def phase(self, policy: str) -> str:
        """A policy's phase, or empty."""
        return str(self.status(policy).get("phase", ""))

    def phases(self) -> dict[str, str]:
        """The phases of all policies, by one call."""
        items = self.access.call("GET", self.policies.path)["items"]
        return {item["metadata"]["name"]: item.get("status", {}).get("phase", "") for item in items}

    def experiment(self, name: str) -> Object | None:
        """An experiment; None when it is gone."""
        try:
            return self.access.call("GET", f"{self.kvx}/{name}")
        except Answered as error:
            if error.status == 404:
                return None
            raise

    def experiments(self, policy: str) -> list[Object]:
        """A policy's experiments, oldest first."""
        found = self.access.query(self.kvx, labelSelector=f"kvtune.dev/policy={policy}")["items"]
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    def until(self, ask: Callable[[], Any], what: str) -> Any:
        """Wait for an answer that is not empty; what `revive` says of operators that have ended holds."""

        def found() -> Any:
            self.revive()
            return ask() or None

        return until(found, what, self.describe)

    def until_phase(self, policy: str, *phases: str) -> None:
        """Wait for one of some phases."""
        self.until(lambda: self.phase(policy) in phases, f"{policy} is {' or '.join(phases)}")

    def until_exposed(self, herd: str) -> Object:
        """Wait until agents of a herd run a candidate; the running experiment."""
        self.until(lambda: self.farm.exposed(herd), f"{herd} has candidates")
        return self.experiments(herd)[-1]

    def until_home(self, herd: str) -> None:
        """Wait until no agent of a herd runs a candidate."""
        self.until(lambda: not self.farm.exposed(herd), f"{herd} is at home")

    def until_ended(self, policy: str, number: int = 1) -> Object:
        """Wait until an experiment has ended and is free; the experiment."""

        def found() -> Object | None:
            held = self.experiment(f"{policy}-{number:05}")
            ended = held is not None and held.get("status", {}).get("endedAt")
            return held if ended and not finalizers(held) else None

        ended: Object = self.until(found, f"experiment {number} of {policy} ends")
        return ended

    def outcome(self, experiment: Object) -> str:
        """How an experiment ended: `Promoted(Superior)`."""
        status = experiment["status"]
        return f"{status.get('outcome')}({status.get('reason')})"

    def events(self, name: str, reason: str = "") -> list[str]:
        """Messages of the events of an object."""
        fields = f"involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        items = self.access.query(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=fields)[
            "items"
        ]
        return [f"{item['reason']}: {item['message']}" for item in items]

    def annotations(self, policy: str) -> dict[str, str]:
        """A policy's annotations."""
        return dict((self.policies.get(policy) or {"metadata": {}})["metadata"].get("annotations", {}))

    def ttls(self, herd: str) -> set[str]:
        """The TTLs that the agents of a herd run."""
        return {agent["config"]["cacheTTL"] for agent in self.farm.agents(herd).values()}

    def assert_replays(self, experiment: Object) -> None:
        """`kubectl get kvx -o json | kvtune replay` must come to the same verdicts."""
        path = self.folder / f"{experiment['metadata']['name']}.json"
        path.write_text(json.dumps(experiment))
        done = Running(self.folder, f"replay-{path.stem}", KVTUNE, "replay", path)
        assert done.code() == 0, done.out + done.err
        assert "verdicts equal" in done.out

    def describe(self) -> str:
        """What stands still, for a failed wait."""
        items = self.access.call("GET", self.policies.path)["items"]
        shown = ("phase", "waitingFor", "lastOutcome")
        waits = [
            (item["metadata"]["name"], *(item.get("status", {}).get(key) for key in shown)) for item in items
        ]
        said = self.operators[-1].err[-3000:] if self.operators else ""
        return f"{waits}\n{said}"


def finalizers(raw: Object | None) -> list[str]:
    """The finalizers of an object."""
    return list((raw or {"metadata": {}})["metadata"].get("finalizers") or [])


def is_live(raw: Object | None) -> bool:
    """Whether an object carries our finalizer."""
    return FINALIZER in finalizers(raw)


@contextmanager
def world(access: Access, namespace: str, folder: Path, *herds: Herd) -> Iterator[World]:
    """Agents in a namespace and the rights for its operators, none of which is left running."""
    root = f"/api/v1/namespaces/{namespace}/configmaps"
    settings = {"metadata": {"name": "kvtune-operator"}, "data": {"config.yaml": SETTINGS}}
    access.call("POST", root, settings)
    with rights(access, namespace), farm(access, namespace, folder, *herds) as agents:
        made = World(access, namespace, folder, agents)
        try:
            yield made
        finally:
            for operator in made.operators:
                operator.clean_up()
            _free_all(made)


def _free_all(made: World) -> None:
    """Let a failed test leave nothing that keeps the namespace from going."""
    for path in (made.policies.path, made.kvx):
        for item in made.access.call("GET", path)["items"]:
            if finalizers(item):
                name = item["metadata"]["name"]
                made.access.call("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}})
