"""What went wrong with a call to the API server, in words that say what to do about it.

    Unavailable
    +-- Gone          list anew: the resource version is too old
    +-- Absent        what a write is for (object, namespace or kind) is not there
    +-- Overloaded    the server asks us to slow down, and may say for how long
    +-- NotAllowed    RBAC lacks a right: verb, resource and namespace are named
    +-- Terminating   the namespace is being deleted and takes nothing new
    +-- Rejected      the server finds our object wrong (a rule of the CRD, too large)

A call that lost to another writer is a `Conflict`.
"""

import json
from dataclasses import dataclass
from typing import Any

from kvtune_api.errors import Conflict, Forbidden, KvtuneError, Unavailable
from kvtune_api.names import POLICIES

MESSAGE_SHOWN = 300
_OWNED = "cannot set blockOwnerDeletion"
"""So the API server says it when we may not update the finalizers of an owner: our owners are policies."""


class Gone(Unavailable):
    """Say that a resource version is too old: list anew."""


class Absent(Unavailable):
    """Say that the object, its namespace or its kind is not there."""


class Overloaded(Unavailable):
    """Say that the API server asks for fewer calls."""

    def __init__(self, message: str, *, retry_after_seconds: float | None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotAllowed(Forbidden):
    """Say which right is missing."""


class Terminating(Unavailable):
    """Say that the namespace is being deleted."""


class Rejected(Unavailable):
    """Say what the API server finds wrong with what we sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One call in RBAC's words."""

    verb: str
    resource: str
    """Plural, with the subresource: `kvcachepolicies/status`."""

    name: str = ""
    namespace: str = ""

    @property
    def place(self) -> str:
        """Where the right would have to be given."""
        return f"in namespace {self.namespace}" if self.namespace else "in the cluster"

    def __str__(self) -> str:
        what = f"{self.resource} {self.name}" if self.name else self.resource
        return f"{self.verb} {what} {self.place}"


def deed(verb: str, path: str) -> Deed:
    """The deed of a call on an API path such as `/api/v1/namespaces/x/pods/a`."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, *sub = (*rest, "", "")[: max(2, len(rest))]
    return Deed(verb=verb, resource="/".join((resource, *sub)), name=name, namespace=namespace)


def failure(what: Deed, status: int, body: bytes, retry_after: str | None = None) -> KvtuneError:
    """The error for an answer that is no success."""
    said = _status_of(body)
    message = _shortened(str(said.get("message") or body[:MESSAGE_SHOWN].decode("utf-8", "replace")))
    text = f"{what}: HTTP {status}: {message}"
    match status:
        case 401:
            return NotAllowed(f"the API server does not accept our credentials (to {what}, HTTP 401)")
        case 403 if _is_terminating(said):
            return Terminating(f"namespace {what.namespace} is being deleted (to {what})")
        case 403 if _OWNED in message:  # only where the plugin OwnerReferencesPermissionEnforcement is on
            right = f"may not update {POLICIES}/finalizers {what.place}"
            return NotAllowed(f"{right} (HTTP 403 to {what}: {message})")
        case 403:
            return NotAllowed(f"may not {what.verb} {what.resource} {what.place} (HTTP 403: {message})")
        case 404:
            return Absent(f"{what}: not there ({message})")
        case 409:
            return Conflict(f"{what}: {message}")
        case 410:
            return Gone(text)
        case 413 | 422:
            return Rejected(f"{what}: the API server refuses this ({message})")
        case 429:
            return Overloaded(text, retry_after_seconds=_seconds(retry_after))
    return Rejected(_TOO_LARGE.format(what, message)) if _is_too_large(message) else Unavailable(text)


_TOO_LARGE = "{}: the object is too large to be stored ({})"


def _is_too_large(message: str) -> bool:
    """Whether etcd has refused the size: the API server answers that with 500."""
    return "request is too large" in message or "larger than max" in message


def _status_of(body: bytes) -> dict[str, Any]:
    """The server's `Status` object; empty when the body is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_terminating(said: dict[str, Any]) -> bool:
    details = said.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return any(
        isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes or ()
    )


def _seconds(header: str | None) -> float | None:
    try:
        found = float(header) if header else None
    except ValueError:
        return None
    return found if found is not None and 0 <= found < 86400 else None


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_SHOWN else text[: MESSAGE_SHOWN - 3] + "..."
