"""The Lease object as plain JSON: what is written when it is taken, renewed, released. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kvtune_api.names import ANNOTATION_TOKEN

LONGEST_TOKEN = 16
"""Digits of the largest token that can be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Which lease, and its times in wall seconds."""

    namespace: str
    name: str
    identity: str
    """Unlike that of any other process, also of an earlier one in the same pod."""

    duration_seconds: float = 15.0

    @property
    def deadline_seconds(self) -> float:
        """Without a renewal for so long the lease counts as lost."""
        return self.duration_seconds * 2 / 3

    @property
    def retry_seconds(self) -> float:
        """Between two renewals, and between two looks of a standby."""
        return self.duration_seconds * 2 / 15

    @property
    def timeout_seconds(self) -> float:
        """For one call."""
        return self.duration_seconds / 4

    @property
    def standby_seconds(self) -> float:
        """Between two signs of life of a standby."""
        return self.duration_seconds / 3


def stamp(unix_milliseconds: int) -> str:
    """A Kubernetes MicroTime, for people; it is never compared with another machine's."""
    moment = datetime.fromtimestamp(unix_milliseconds / 1000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def taken(found: Mapping[str, Any] | None, settings: LeaseSettings, now: str) -> dict[str, Any]:
    """The lease as ours: new, or over the one that was found."""
    before = (found or {}).get("spec") or {}
    spec = {
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": max(1, round(settings.duration_seconds)),
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": (before.get("leaseTransitions") or 0) + (found is not None),
    }
    metadata = (found or {}).get("metadata") or {"name": settings.name, "namespace": settings.namespace}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": dict(metadata),
        "spec": spec,
    }


def renewal(held: Mapping[str, Any], now: str, token: int | None = None) -> dict[str, Any]:
    """The lease renewed, with another fencing token where one is given."""
    changed = {} if token is None else {ANNOTATION_TOKEN: str(token)}
    return {**annotated(held, changed), "spec": {**held["spec"], "renewTime": now}}


def released(lease: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The lease without a holder."""
    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
    return {**lease, "spec": spec}


def annotations(lease: Mapping[str, Any]) -> dict[str, str]:
    """Its annotations."""
    return dict((lease.get("metadata") or {}).get("annotations") or {})


def annotated(lease: Mapping[str, Any], changed: Mapping[str, str]) -> dict[str, Any]:
    """The lease with some annotations changed."""
    metadata = {**lease["metadata"], "annotations": annotations(lease) | dict(changed)}
    return {**lease, "metadata": metadata}


def token_of(lease: Mapping[str, Any]) -> int:
    """The fencing token that it carries; 0 without one that can be used."""
    text = annotations(lease).get(ANNOTATION_TOKEN, "")
    written = len(text) <= LONGEST_TOKEN and text.isascii() and text.isdigit()
    return int(text) if written else 0
