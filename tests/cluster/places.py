"""Namespaces in which an operator misses one right, and what is done in them."""

import copy
from dataclasses import dataclass, field, replace

from kvtune_api.codec import dump
from kvtune_operator.adapters.kubernetes_forms import owner
from tests.cluster.farm import TOKEN, Farm, short
from tests.cluster.operators import Policies
from tests.cluster.shared import Object
from tests.fakes.samples import experiment
from tools.controlplane.access import Access

PRUNED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace for one operator."""

    access: Access
    namespace: str
    farm: Farm
    """Its agents serve every place: their pods are written in each."""

    policies: Policies = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", Policies(self.access, self.namespace))

    def idle(self, **spec: object) -> Object:
        """Apply a policy that has nobody to tune."""
        return self.policies.apply("idle", selector={"agents": {"matchLabels": {"app": "none"}}}, **spec)

    def by_nodes(self) -> None:
        """Apply a policy that chooses by nodes."""
        selector = {"agents": {"matchLabels": {"app": "none"}}, "nodes": {"matchLabels": {"pool": "none"}}}
        self.policies.apply("by-nodes", selector=selector)

    def live(self) -> None:
        """Apply a policy with two agents, for which an experiment starts."""
        secret = {"name": "kvtune-agent-token", "labels": {"kvtune.dev/agent-token": "true"}}
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        self.access.call("POST", path, {"metadata": secret, "stringData": {"token": TOKEN}})
        self.agents()

    def untold(self) -> None:
        """Apply a policy with two agents, and an empty Secret for their write token."""
        secret = {"name": "kvtune-agent-token", "labels": {"kvtune.dev/agent-token": "true"}}
        self.access.call("POST", f"/api/v1/namespaces/{self.namespace}/secrets", {"metadata": secret})
        self.agents()

    def agents(self) -> None:
        """Apply a policy with two agents."""
        mine = copy.copy(self.farm)
        mine.pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        for pod in self.farm.herds[0].pods:
            place = self.access.call("GET", f"{self.farm.pods_path}/{pod}")["status"]["podIP"]
            mine.add_pod(pod, place, {"app": "live"})
        self.policies.apply("live", **short())

    def abort(self) -> None:
        """Ask for the end of the experiment, once it runs."""
        if (self.policies.get("live") or {}).get("status", {}).get("experiment"):
            note = {"metadata": {"annotations": {"kvtune.dev/abort": "live-00001"}}}
            self.access.call("PATCH", f"{self.policies.path}/live", note)

    def old(self) -> None:
        """Apply a policy with more old experiments than it keeps."""
        uid = self.idle(historyLimit=1)["metadata"]["uid"]
        head = {"apiVersion": "kvtune.dev/v1alpha1", "kind": "KVCacheExperiment"}
        owned = {"labels": {"kvtune.dev/policy": "idle"}, "ownerReferences": [owner("idle", uid)]}
        for number in range(1, PRUNED + 2):
            spec = replace(experiment(rows=0).spec, policy="idle", policy_uid=uid, number=number)
            body = {**head, "metadata": {"name": f"idle-{number}", **owned}, "spec": dump(spec, packed=True)}
            self.access.call("POST", self.experiments, body)

    @property
    def experiments(self) -> str:
        """The path of its experiments."""
        return f"{self.policies.path.rpartition('/')[0]}/kvcacheexperiments"

    def told(self, name: str, reason: str) -> list[str]:
        """Messages of the events of a policy."""
        fields = f"involvedObject.name={name},reason={reason}"
        path = f"/api/v1/namespaces/{self.namespace}/events"
        return [item["message"] for item in self.access.query(path, fieldSelector=fields)["items"]]
