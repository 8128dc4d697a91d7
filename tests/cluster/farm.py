"""Simulated agents of one test, as pods of its namespace: one process serves them all.

A `Herd` is a group of agents with one label `app` and one response to configurations; a policy selects it by
that label. Pods are written by hand as kubelets would: Ready, with the container port `kvtune` and an address
127.0.x.y. Experiments on them run on the real clock.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kvtune_api.names import AGENT_TOKEN_SECRET, LABEL_AGENT_TOKEN
from tests.cluster.rights import documents
from tests.e2e.processes import Running
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

GIB = 2**30
TOKEN = "correct-horse"
BETTER: Mapping[str, float] = {"cacheTTL": 0.1}
"""Each doubling of the TTL gains 10 points of hit rate."""

WORSE: Mapping[str, float] = {"cacheTTL": -0.1}
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """Agents `NAME-1`, ... of one policy. `gains`: hit rate per doubling of a knob from the start."""

    name: str
    agents: int = 16
    gains: Mapping[str, float] = field(default_factory=lambda: BETTER)
    rate: float = 50.0
    """Requests per second of one agent."""

    noise: float = 0.001
    """Sd of an agent's hit rate over 120 s."""

    start: Mapping[str, float] = field(default_factory=lambda: {"cacheTTL": 30.0})
    """What the agents run at first, in seconds and bytes."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of the pods, beside `app: NAME`."""

    @property
    def pods(self) -> list[str]:
        """Names of its agents."""
        return [f"{self.name}-{number}" for number in range(1, self.agents + 1)]


class Farm:
    """The agents of a test while they are served."""

    def __init__(self, access: Access, namespace: str, process: Running, herds: Sequence[Herd]) -> None:
        self.access = access
        self.namespace = namespace
        self.process = process
        self.herds = tuple(herds)
        self.node = node_name(namespace)
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self.port = int(json.loads(process.until_said('"port"'))["port"])
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/herds", timeout=30, trust_env=False
        )

    def agents(self, herd: str = "") -> dict[str, Object]:
        """What each agent runs, by name: role, config, incumbent, generation, token, lapses, pushes."""
        found: dict[str, Object] = self._client.get("/agents").raise_for_status().json()
        names = [name for one in self.herds if herd in ("", one.name) for name in one.pods]
        return {name: found[name] for name in names}

    def exposed(self, herd: str = "") -> list[str]:
        """Agents that run a candidate now."""
        return [name for name, agent in self.agents(herd).items() if agent["role"] == "candidate"]

    def pushes(self, herd: str = "") -> list[Object]:
        """Every push that was taken: `at`, `agent`, `push`."""
        names = set(self.agents(herd))
        found: list[Object] = self._client.get("/pushes").raise_for_status().json()
        return [item for item in found if item["agent"] in names]

    def switch(self, names: Sequence[str], switch: str, to: object) -> None:
        """Set a switch of tests/fakes/sim.py's SimAgent (down, slow, nan, shrug, refuses_token)."""
        self._change(names, switch=switch, to=to)

    def traffic(self, names: Sequence[str], rate: float) -> None:
        """Change the requests per second of each of these agents."""
        self._change(names, rate=rate)

    def errors(self, names: Sequence[str], per_second: float) -> None:
        """Let these agents count errors."""
        self._change(names, errors=per_second)

    def fall_back(self, names: Sequence[str]) -> None:
        """Let these agents report that they run LRU in place of their eviction policy."""
        self._change(names, fallback={"reason": "LowReuse", "message": "reuse rate 0.1", "since": 1.0})

    def restart(self, names: Sequence[str]) -> None:
        """Restart these agents: counters from zero, back on their incumbent."""
        self._change(names, restart=True)

    def _change(self, names: Sequence[str], **wish: object) -> None:
        self._client.post("/change", json={"agents": list(names), **wish}).raise_for_status()

    def add_pod(self, name: str, address: str, labels: Mapping[str, str]) -> None:
        """Write a pod as its kubelet would once it is Ready."""
        container = {
            "name": "agent",
            "image": "none",
            "ports": [{"name": "kvtune", "containerPort": self.port}],
        }
        body = {
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"nodeName": self.node, "containers": [container], "terminationGracePeriodSeconds": 0},
        }
        self.access.call("POST", self.pods_path, body)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": address, "conditions": [ready]}
        self.access.call("PATCH", f"{self.pods_path}/{name}/status", {"status": status})

    def remove_pod(self, name: str) -> None:
        """Delete a pod at once; its agent still runs and can be looked at."""
        self.access.call("DELETE", f"{self.pods_path}/{name}?gracePeriodSeconds=0")

    def close(self) -> None:
        """Ask nothing more."""
        self._client.close()


def node_name(namespace: str) -> str:
    """The node of a test's herds; its label `test` is the namespace."""
    return f"{namespace}-farm"


def short(*, experiment: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """Parts of a spec for real-clock experiments: `policies.apply(name, **short())` ends in some 100 s."""
    settings = {
        "washout": {"min": "5s", "max": "5s"},
        "window": {"min": "5s", "max": "5s"},
        "minRequests": 10,
        "minPairs": 5,
        "maxPairs": 16,
        "cooldown": "0s",
        "watchWindows": 1,
        "leaseDuration": "6s",
        "noDataTimeout": "30s",
        **(experiment or {}),
    }
    return {
        "targets": {"hitRate": {"min": 0.1}},
        "knobs": {"cacheTTL": {"min": "30s", "max": "60s", "start": "30s", "largestStep": 2}},
        "strategy": "Ladder",
        "metrics": {"span": "10s"},
        "experiment": settings,
        **spec,
    }


@contextmanager
def farm(
    access: Access, namespace: str, folder: Path, *herds: Herd, operator: str | None = None
) -> Iterator[Farm]:
    """Serve herds as ready pods of a namespace, with the Secret of their write token.

    `operator` is the namespace of the operator that may read it, where that is another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    node = node_name(namespace)
    plan = folder / "farm.json"
    addresses = {herd.name: _addresses(index, herd) for index, herd in enumerate(herds)}
    described = [
        {**asdict(herd), "seed": index, "agents": addresses[herd.name]} for index, herd in enumerate(herds)
    ]
    kubeconfig = str(access.kubeconfig)
    plan.write_text(
        json.dumps({"herds": described, "token": TOKEN, "kubeconfig": kubeconfig, "nodes": [node]})
    )
    process = Running(folder, "farm", "tests.cluster.farm_process", plan)
    made = None
    try:
        made = Farm(access, namespace, process, herds)
        _node(access, namespace, node)
        opt_in(access, namespace, operator or namespace)
        _secret(access, namespace)
        for herd in herds:
            for name, address in addresses[herd.name].items():
                made.add_pod(name, address, {"app": herd.name, **herd.labels})
        yield made
    finally:
        if made is not None:
            made.close()
        process.clean_up()
        for path in (
            f"/api/v1/nodes/{node}",
            f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}",
        ):
            with suppress(Answered):
                access.call("DELETE", path)


def opt_in(access: Access, namespace: str, operator: str) -> None:
    """Let the operator of a namespace read the agents' write token here, as examples/agent.yaml does."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    for document in documents("agent.yaml"):
        if document["kind"] in ("Role", "RoleBinding"):
            for subject in document.get("subjects", ()):
                subject["namespace"] = operator
            access.call("POST", f"{root}/{document['kind'].lower()}s", document)


def _addresses(index: int, herd: Herd) -> dict[str, str]:
    """Addresses of a herd's agents, 250 to a block of the third byte."""
    assert herd.agents <= 1000
    names = enumerate(herd.pods)
    return {name: f"127.0.{10 + 4 * index + number // 250}.{1 + number % 250}" for number, name in names}


def _node(access: Access, namespace: str, name: str) -> None:
    access.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"test": namespace}}})
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    access.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})


def _secret(access: Access, namespace: str) -> None:
    metadata = {"name": AGENT_TOKEN_SECRET, "labels": {LABEL_AGENT_TOKEN: "true"}}
    path = f"/api/v1/namespaces/{namespace}/secrets"
    access.call("POST", path, {"metadata": metadata, "stringData": {"token": TOKEN}})
