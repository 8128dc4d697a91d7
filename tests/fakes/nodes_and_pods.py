"""Nodes and pods as an API server has them, and a server of lists and watches that can fail as told."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvtune_api.errors import KvtuneError
from kvtune_api.policy import KVCachePolicy

Json = dict[str, Any]
S = TypeVar("S")
READY_SINCE = "2026-01-01T00:00:00Z"


def node(
    name: str, *, labels: dict[str, str] | None = None, ready: bool = True, unschedulable: bool = False
) -> Json:
    """A node."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def pod(name: str, on: str = "n1", *, ip: str = "127.0.0.2", port: str = "kvtune", **more: Any) -> Json:
    """A running, ready pod; `more` may hold labels, ready, phase, conditions, waiting, owner, created."""
    ready = more.get("ready", True)
    conditions = [
        {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": more.get("since", READY_SINCE),
        },
        *more.get("conditions", ()),
    ]
    status: Json = {"phase": more.get("phase", "Running"), "conditions": conditions}
    if ip:
        status["podIP"] = ip
    if "waiting" in more:
        status["containerStatuses"] = [{"name": "agent", "state": {"waiting": {"reason": more["waiting"]}}}]
    metadata: Json = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": more.get("created", READY_SINCE),
        "labels": more.get("labels", {}),
    }
    if "owner" in more:
        metadata["ownerReferences"] = [{"kind": "DaemonSet", "name": more["owner"], "controller": True}]
    if "deleted" in more:
        metadata["deletionTimestamp"] = more["deleted"]
    ports = [{"name": port, "containerPort": more.get("number", 9402)}] if port else []
    containers = [{"name": "agent", "ports": ports}]
    return {"metadata": metadata, "spec": {"nodeName": on, "containers": containers}, "status": status}


class Hours:
    """A clock that sleeping moves; every sleep lets others run, and is kept."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """The time."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Move the time."""
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


@dataclass(slots=True, kw_only=True)
class Watched:
    """One watch that the server is to answer: changes, then an error or a clean end."""

    changes: list[tuple[str, Json]] = field(default_factory=list)
    lasts: float = 30.0
    """Seconds until it ends (they pass at once)."""

    error: KvtuneError | None = None


class FakeLister:
    """Answers lists and watches of one collection from a script; when that is over, watches hang."""

    def __init__(self, hours: Hours) -> None:
        self._hours = hours
        self.lists: deque[list[Json] | KvtuneError] = deque()
        self.watches: deque[Watched] = deque()
        self.calls: list[str] = []
        """`list`, or `watch VERSION`."""

        self.idle = asyncio.Event()
        """Set when the script is over."""

    async def reduced(self, path: str, read: Callable[[Json], S]) -> tuple[tuple[S, ...], str]:
        """The next list of the script."""
        self.calls.append("list")
        if not self.lists:
            await self._hang()
        answer = self.lists.popleft()
        if isinstance(answer, KvtuneError):
            raise answer
        return tuple(map(read, answer)), f"list-{self.calls.count('list')}"

    async def watch(
        self, path: str, *, resource_version: str, seconds: float
    ) -> AsyncIterator[tuple[str, Json]]:
        """The next watch of the script."""
        self.calls.append(f"watch {resource_version}")
        if not self.watches:
            await self._hang()
        told = self.watches.popleft()
        for number, (kind, found) in enumerate(told.changes):
            version = found["metadata"].get("resourceVersion", f"{resource_version}.{number}")
            yield kind, {**found, "metadata": {**found["metadata"], "resourceVersion": version}}
        self._hours.seconds += told.lasts
        if told.error is not None:
            raise told.error

    async def _hang(self) -> None:
        self.idle.set()
        await asyncio.Event().wait()


@dataclass(slots=True)
class Cluster:
    """An API server with some nodes and pods whose watches are quiet, or whose lists fail."""

    nodes: list[Json] | KvtuneError = field(default_factory=lambda: [node("n1", labels={"gpu": "h200"})])
    pods: list[Json] | KvtuneError = field(default_factory=list)
    open_watches: set[str] = field(default_factory=set)

    async def settled(self) -> None:
        """Let all tasks come to rest."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def reduced(self, path: str, read: Callable[[Json], S]) -> tuple[tuple[S, ...], str]:
        """Nodes or pods."""
        found = self.nodes if path.endswith("/nodes") else self.pods
        if isinstance(found, KvtuneError):
            raise found
        return tuple(map(read, found)), "1"

    async def watch(
        self, path: str, *, resource_version: str, seconds: float
    ) -> AsyncIterator[tuple[str, Json]]:
        """Nothing happens."""
        self.open_watches.add(path)
        try:
            await asyncio.Event().wait()
        finally:
            self.open_watches.discard(path)
        yield "BOOKMARK", {}


@dataclass(slots=True)
class Older:
    """Rivals as a test wants them."""

    policies: Sequence[KVCachePolicy] = ()

    def older(self, policy: KVCachePolicy) -> Sequence[KVCachePolicy]:
        """The same for every policy."""
        return self.policies


@dataclass(slots=True)
class StaticToken:
    """A token that is there."""

    token: str = "correct-horse"

    async def current(self, *, refused: str | None = None) -> str:
        """Always the same."""
        return self.token
