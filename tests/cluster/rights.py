"""Every right that the operator has in examples/operator.yaml, and what it is for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"


class Right(NamedTuple):
    """One verb on one resource."""

    group: str
    resource: str
    verb: str


USES: Mapping[Right, str] = {
    Right("kvtune.dev", "kvcachepolicies", "get"): "each tick reads the policy",
    Right("kvtune.dev", "kvcachepolicies", "list"): "the start, and whatever a watch has missed",
    Right("kvtune.dev", "kvcachepolicies", "watch"): "a new policy is accepted within a second",
    Right(
        "kvtune.dev", "kvcachepolicies", "patch"
    ): "the finalizer of a live experiment; commands carried out",
    Right("kvtune.dev", "kvcachepolicies/status", "update"): "the status",
    Right(
        "kvtune.dev", "kvcachepolicies/finalizers", "update"
    ): "owner of experiments, under an admission plugin",
    Right("kvtune.dev", "kvcacheexperiments", "get"): "each tick of a live experiment",
    Right("kvtune.dev", "kvcacheexperiments", "list"): "the history of a policy",
    Right("kvtune.dev", "kvcacheexperiments", "create"): "an experiment begins",
    Right("kvtune.dev", "kvcacheexperiments", "patch"): "its finalizer goes when it has ended",
    Right("kvtune.dev", "kvcacheexperiments", "delete"): "the history limit",
    Right("kvtune.dev", "kvcacheexperiments/status", "update"): "evidence and outcome",
    Right("", "events", "create"): "events",
    Right("", "events", "get"): "an event of an earlier process is counted on",
    Right("", "events", "patch"): "equal events are counted",
    Right("", "pods", "list"): "agents",
    Right("", "pods", "watch"): "agents that come and go",
    Right("", "nodes", "list"): "node selectors",
    Right("", "nodes", "watch"): "drains",
    Right("coordination.k8s.io", "leases", "create"): "the first start",
    Right("coordination.k8s.io", "leases", "get"): "standing by",
    Right("coordination.k8s.io", "leases", "update"): "holding the lease; the fencing token; standing by",
    Right("", "configmaps", "get"): "the operator's settings",
}

AGENT_USES: Mapping[Right, str] = {
    Right("", "secrets", "get"): "the write token of the namespace's agents",
    Right("", "secrets", "patch"): "that token is filled in where it is lacking",
}
"""The rights that examples/agent.yaml gives in each namespace of agents."""


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of an example."""
    return [item for item in yaml.safe_load_all((EXAMPLES / name).read_text("utf-8")) if item]


def granted(name: str) -> set[Right]:
    """Every right that the roles of an example give."""
    return {
        Right(group, resource, verb)
        for document in documents(name)
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
