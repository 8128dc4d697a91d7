"""The two CustomResourceDefinitions: names, columns, and the schema of each version.

Called by tools/crdgen.py. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvtune_api import names
from kvtune_api.codec import adapter
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy
from kvtune_api.rules import RULES_KEY
from tools.crd.structural import Schema, structural


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    meaning: str
    kind: str = "string"
    wide: bool = False
    """Only with `-o wide`."""

    def plain(self) -> dict[str, Any]:
        """Return the column as a CustomResourceDefinition says it."""
        made = {"name": self.name, "type": self.kind, "jsonPath": self.path, "description": self.meaning}
        return made | ({"priority": 1} if self.wide else {})


AGE = Column(name="Age", kind="date", path=".metadata.creationTimestamp", meaning="Since it was created.")

POLICY_COLUMNS = (
    Column(name="Phase", path=".status.phase", meaning="Where the policy stands."),
    Column(name="TTFT", path=".status.shown.ttft", meaning="Share of requests within the limit (target)."),
    Column(name="HitRate", path=".status.shown.hitRate", meaning="Hit rate (target)."),
    Column(name="Experiment", path=".status.experiment", meaning="The experiment that runs."),
    Column(name="LastOutcome", path=".status.lastOutcome", meaning="How the last experiment ended."),
    AGE,
    Column(name="Waiting", path=".status.waitingFor", meaning="Why the phase waits, with numbers."),
    Column(
        name="Ready", kind="integer", path=".status.agentsReady", meaning="Agents that are ready.", wide=True
    ),
    Column(name="Agents", kind="integer", path=".status.agents", meaning="Agents selected.", wide=True),
    Column(name="TTL", path=".status.incumbent.cacheTTL", meaning="The incumbent's TTL.", wide=True),
    Column(
        name="Ratio",
        kind="number",
        path=".status.incumbent.evictionRatio",
        meaning="The incumbent's eviction ratio.",
        wide=True,
    ),
    Column(
        name="Host",
        path=".status.incumbent.tiers.hostMemory",
        meaning="The incumbent's host memory.",
        wide=True,
    ),
    Column(
        name="Eviction",
        path=".status.incumbent.evictionPolicy",
        meaning="The incumbent's eviction policy.",
        wide=True,
    ),
    Column(
        name="Power",
        kind="number",
        path=".status.power",
        meaning="Probability that the experiment finds the gain it looks for.",
        wide=True,
    ),
    Column(
        name="EstimatedEnd",
        path=".status.estimatedEnd",
        meaning="When the experiment will have ended.",
        wide=True,
    ),
    Column(
        name="Started",
        kind="integer",
        path=".status.experimentsStarted",
        meaning="Experiments started so far.",
        wide=True,
    ),
)

EXPERIMENT_COLUMNS = (
    Column(name="Policy", path=".spec.policy", meaning="The policy that it belongs to."),
    Column(name="Phase", path=".status.phase", meaning="Where the experiment stands."),
    Column(name="Outcome", path=".status.outcome", meaning="How it ended."),
    Column(name="Reason", path=".status.reason", meaning="Why it ended so."),
    Column(
        name="Effect",
        path=".status.shown.effect",
        meaning="Candidate minus incumbent in the objective, in points, with its interval.",
    ),
    Column(
        name="E-value", path=".status.shown.eValue", meaning="Evidence for the candidate / what it needs."
    ),
    Column(
        name="Deltas", path=".status.shown.deltas", meaning="Comparisons of pairs / the most there may be."
    ),
    AGE,
    Column(name="TTL", path=".spec.candidate.cacheTTL", meaning="The candidate's TTL.", wide=True),
    Column(
        name="Ratio",
        kind="number",
        path=".spec.candidate.evictionRatio",
        meaning="The candidate's eviction ratio.",
        wide=True,
    ),
    Column(
        name="Host", path=".spec.candidate.tiers.hostMemory", meaning="The candidate's host size.", wide=True
    ),
    Column(
        name="Eviction",
        path=".spec.candidate.evictionPolicy",
        meaning="The candidate's eviction policy.",
        wide=True,
    ),
    Column(name="Strategy", path=".spec.strategy", meaning="Who proposed the candidate.", wide=True),
    Column(name="Why", path=".spec.why", meaning="Why it was proposed.", wide=True),
)

IMMUTABLE = {
    "rule": "self == oldSelf",
    "message": "an experiment's spec never changes: it holds what is judged",
}


def policy_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of KVCachePolicy."""
    return _crd(KVCachePolicy, names.POLICIES, "kvp", POLICY_COLUMNS, _schema(KVCachePolicy))


def experiment_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of KVCacheExperiment."""
    schema = _schema(KVCacheExperiment)
    spec = schema["properties"]["spec"]
    schema["properties"]["spec"] = {**without_defaults(spec), RULES_KEY: [IMMUTABLE]}
    return _crd(KVCacheExperiment, names.EXPERIMENTS, "kvx", EXPERIMENT_COLUMNS, schema)


def _crd(cls: type, plural: str, short: str, columns: tuple[Column, ...], schema: Schema) -> dict[str, Any]:
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.plain() for column in columns],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": cls.__name__.lower(),
                "kind": cls.__name__,
                "listKind": f"{cls.__name__}List",
                "shortNames": [short],
                "categories": ["kvtune"],
            },
            "versions": [version],
        },
    }


def _schema(cls: type) -> Schema:
    """The schema of a whole object: the API server's own fields are its own."""
    found = adapter(cls).json_schema(by_alias=True)
    schema = structural(found, found.get("$defs", {}))
    for name, meaning in (
        ("apiVersion", f"{names.API_VERSION}."),
        ("kind", f"{cls.__name__}."),
    ):
        schema["properties"][name] = {"type": "string", "description": meaning}
    schema["properties"]["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    schema["properties"]["status"] = open_status(schema["properties"]["status"])
    schema["properties"]["status"].pop("default", None)
    return schema


def without_defaults(schema: Mapping[str, Any]) -> Schema:
    """Return a schema that adds nothing to what is written."""
    made: Schema = {}
    for key, value in schema.items():
        match key:
            case "default":
                continue
            case "properties":
                made[key] = {name: without_defaults(field) for name, field in value.items()}
            case "items" | "additionalProperties":
                made[key] = without_defaults(value)
            case _:
                made[key] = value
    return made


def open_status(schema: Mapping[str, Any]) -> Schema:
    """Return a status schema that refuses no value of its types: nothing but the control plane writes it.

    Closed choices become words of the description and rules go, so that a control plane of a newer version
    can write its status under this one's CRD.
    """
    made: Schema = {}
    for key, value in schema.items():
        match key:
            case "description" if "enum" in schema:
                made[key] = f"{value} One of: {', '.join(map(str, schema['enum']))}."
            case "enum" | "default" | "pattern" | "required":
                continue
            case _ if key == RULES_KEY or key.startswith(("minimum", "maximum", "exclusive")):
                continue
            case "properties":
                made[key] = {name: open_status(field) for name, field in value.items()}
            case "items" | "additionalProperties":
                made[key] = open_status(value)
            case _:
                made[key] = value
    return made
