"""Between objects of the API server as plain JSON and the types of the vocabulary. No I/O.

An object whose spec cannot be accepted is `Invalid`. A status that cannot be read is never taken for none,
for that would lose evidence: it raises `Unavailable` with the field, and the object is left as it is until a
newer control plane, or a user, sees to it.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from kvtune_api.codec import camel, dump, parse, parse_json, parse_known
from kvtune_api.errors import Problem, SpecError, Unavailable
from kvtune_api.experiment import ExperimentSpec, ExperimentStatus, KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.metadata import Metadata
from kvtune_api.names import (
    ANNOTATION_ABORT,
    ANNOTATION_APPROVE,
    ANNOTATION_RESTORE,
    ANNOTATION_RESUME,
    ANNOTATION_TRY,
    API_VERSION,
    EXPERIMENTS,
    FINALIZER,
    GROUP,
    LABEL_POLICY_NAME,
    LABEL_POLICY_UID,
    POLICIES,
    VERSION,
)
from kvtune_api.policy import KVCachePolicy, PolicySpec, Retention
from kvtune_api.status import PolicyStatus
from kvtune_operator.ports import Invalid, Stored
from kvtune_tuner.experiment_conditions import experiment_conditions
from kvtune_tuner.model import Command, Verb

Json = dict[str, Any]
T = TypeVar("T")

_METADATA = tuple(camel(item.name) for item in fields(Metadata))

_VERBS = {
    ANNOTATION_ABORT: Verb.ABORT,
    ANNOTATION_APPROVE: Verb.APPROVE,
    ANNOTATION_RESUME: Verb.RESUME,
    ANNOTATION_RESTORE: Verb.RESTORE,
    ANNOTATION_TRY: Verb.TRY,
}
"""Annotations are in no order of time; what ends something comes first."""


EVERY_AGENT = ("all", "yes", "true")
"""Values of the annotation to restore that name no agent."""


class UnreadableStatus(Unavailable):
    """Say which field of a stored status cannot be read."""

    def __init__(self, message: str, metadata: Metadata) -> None:
        super().__init__(message)
        self.metadata = metadata


def collection(namespace: str, plural: str) -> str:
    """Path of our policies or experiments in a namespace."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{plural}"


def experiments_path(namespace: str | None) -> str:
    """Path of the experiments of a namespace, or of all."""
    return (
        f"/apis/{GROUP}/{VERSION}/{EXPERIMENTS}" if namespace is None else collection(namespace, EXPERIMENTS)
    )


def policy_path(namespace: str, name: str) -> str:
    """Path of a policy."""
    return f"{collection(namespace, POLICIES)}/{name}"


def experiment_path(namespace: str, name: str) -> str:
    """Path of an experiment."""
    return f"{collection(namespace, EXPERIMENTS)}/{name}"


def metadata_in(raw: Json) -> Metadata:
    """The part of an object's metadata that we know; raise `Unavailable` when it is none."""
    held = raw.get("metadata")
    try:
        return parse(Metadata, {key: held[key] for key in _METADATA if key in held})  # type: ignore[index,operator]  # caught
    except (SpecError, TypeError) as error:
        raise Unavailable(f"the API server's object has no readable metadata: {error}") from error


def policy_in(raw: Json) -> Stored:
    """A policy with its status; `Invalid` when its spec cannot be accepted. Raises `UnreadableStatus`."""
    metadata = metadata_in(raw)
    held = raw.get("status") or None
    status = None if held is None else _status(PolicyStatus, f"policy {metadata.name}", metadata, held)
    try:
        spec = parse_known(PolicySpec, raw.get("spec", {}))
    except SpecError as error:
        under = (replace(problem, path=_below("spec", problem.path)) for problem in error.problems)
        return Invalid(metadata=metadata, status=status, error=SpecError(*under))
    return KVCachePolicy(metadata=metadata, spec=spec, status=status)


def experiment_in(raw: Json) -> KVCacheExperiment:
    """An experiment; one without a status (its writer was killed) has the default's. Raises `Unavailable`."""
    metadata = metadata_in(raw)
    what = f"experiment {metadata.name}"
    held = raw.get("status") or {}
    status = _status(ExperimentStatus, what, metadata, {**held, "conditions": []})
    try:
        spec = parse_known(ExperimentSpec, raw.get("spec", {}))
    except SpecError as error:
        raise Unavailable(f"{what}: its spec cannot be read: {error}") from error
    return KVCacheExperiment(metadata=metadata, spec=spec, status=status)


def _status(cls: type[T], what: str, metadata: Metadata, held: object) -> T:
    try:
        return parse_known(cls, held)
    except SpecError as error:
        first = error.problems[0]
        where = _below("status", first.path)
        text = (
            f"{what}: its status was left by another version and is kept as it is: {where}: {first.message}"
        )
        raise UnreadableStatus(text, metadata) from error


def _below(root: str, path: str) -> str:
    return f"{root}.{path}" if path else root


def policy_status_body(policy: Stored, status: PolicyStatus) -> Json:
    """What is sent to write a policy's status."""
    return _head("KVCachePolicy", policy.metadata) | {"status": _short(dump(status, packed=True))}


def experiment_status_body(experiment: KVCacheExperiment) -> Json:
    """What is sent to write an experiment's status, its conditions derived from all the rest."""
    status = replace(experiment.status, conditions=experiment_conditions(experiment))
    return _head("KVCacheExperiment", experiment.metadata) | {"status": _short(dump(status, packed=True))}


def experiment_body(experiment: KVCacheExperiment, namespace: str) -> Json:
    """What is sent to create a live experiment: its status comes after."""
    spec = experiment.spec
    metadata: Json = {
        "name": experiment.metadata.name,
        "namespace": namespace,
        "labels": {LABEL_POLICY_NAME: spec.policy, LABEL_POLICY_UID: spec.policy_uid},
        "finalizers": [FINALIZER],
    }
    if spec.policy_spec.retention is Retention.DELETE:
        metadata["ownerReferences"] = [owner(spec.policy, spec.policy_uid)]
    return {
        "apiVersion": API_VERSION,
        "kind": "KVCacheExperiment",
        "metadata": metadata,
        "spec": _short(dump(spec, packed=True)),
    }


def _short(plain: Json) -> Json:
    """Plain data without the empty mappings and lists, which `kubectl describe` would give a line each."""
    kept = {key: _short(value) if isinstance(value, dict) else value for key, value in plain.items()}
    return {key: value for key, value in kept.items() if value not in ({}, [])}


def owner(policy: str, uid: str) -> Json:
    """The owner reference by which an experiment is deleted after its policy."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KVCachePolicy",
        "name": policy,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def made_for(raw: Json) -> str | None:
    """UID of the policy that an experiment was made for, by its label or its owner; None: nobody says."""
    metadata = raw["metadata"]
    labelled = (metadata.get("labels") or {}).get(LABEL_POLICY_UID)
    owners = (
        held["uid"] for held in metadata.get("ownerReferences") or () if held["kind"] == "KVCachePolicy"
    )
    return labelled or next(owners, None)


def rightly_owned(policy: KVCachePolicy, raw: Json) -> Json | None:
    """What to merge into an experiment of this policy to own it by `retention`; None when it is so."""
    uid = policy.metadata.uid or ""
    held = raw["metadata"].get("ownerReferences") or []
    wanted = [reference for reference in held if reference["kind"] != "KVCachePolicy"]
    if policy.spec.retention is Retention.DELETE:
        wanted.append(owner(policy.metadata.name, uid))
    if wanted == held:
        return None
    return {"metadata": {"labels": {LABEL_POLICY_UID: uid}, "ownerReferences": wanted}}


def _head(kind: str, metadata: Metadata) -> Json:
    held = {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "resourceVersion": metadata.resource_version,
    }
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": held}


def guarded(metadata: Metadata) -> Json:
    """The first step of a JSON patch that must not meet another version than the one read."""
    return {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version}


def finalizer_added(metadata: Metadata) -> list[Json]:
    """Steps of a JSON patch that add our finalizer."""
    if metadata.finalizers:
        return [{"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}]
    return [{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]


def finalizer_removed(finalizers: tuple[str, ...]) -> list[Json]:
    """Steps of a JSON patch that remove our finalizer, which is one of those given."""
    place = f"/metadata/finalizers/{finalizers.index(FINALIZER)}"
    return [{"op": "test", "path": place, "value": FINALIZER}, {"op": "remove", "path": place}]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadWish:
    """A command that cannot be read: its annotation and what is wrong."""

    id: str
    problem: Problem


def commands_in(metadata: Metadata) -> tuple[tuple[Command, ...], tuple[BadWish, ...]]:
    """The commands that a policy's annotations hold, and those that cannot be read."""
    found, bad = [], []
    for key, verb in _VERBS.items():
        value = (metadata.annotations or {}).get(key)
        if value is None:
            continue
        wish = f"{metadata.name} {key}={value}"
        if verb is not Verb.TRY:
            target = value.strip() if verb in (Verb.ABORT, Verb.APPROVE, Verb.RESTORE) else ""
            if verb is Verb.RESTORE and target.lower() in EVERY_AGENT:
                target = ""
            found.append(Command(id=wish, verb=verb, target=target))
            continue
        try:
            found.append(Command(id=wish, verb=verb, config=parse_json(CacheConfig, value)))
        except SpecError as error:
            bad.append(BadWish(id=wish, problem=error.problems[0]))
    return tuple(found), tuple(bad)


def wish_in(id: str) -> tuple[str, str, str]:
    """Policy, annotation and value of the command of this id."""
    policy, _, rest = id.partition(" ")
    key, _, value = rest.partition("=")
    return policy, key, value


def annotation_removed(metadata: Metadata, key: str) -> list[Json]:
    """JSON patch that drops an annotation of just this version of an object.

    It tests no value: an API server compares text that holds `&`, `<` or `>` with its escaped form, and
    finds it unlike itself (tried: 1.36).
    """
    place = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
    return [guarded(metadata), {"op": "remove", "path": place}]


def age(name: str) -> tuple[int, str]:
    """What sorts experiments from old to new: the number at the end of their names."""
    found = re.search(r"-([0-9]+)$", name)
    return (int(found.group(1)) if found else 0, name)
