"""The nodes of the cluster and the pods of the namespaces that have policies, kept by list and watch.

Made by the operator's root: one inventory a process, one view a namespace, for as long as a policy of that
namespace lives. pods.py asks the views.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kvtune_operator.adapters.kept import Json, Kept, Lister, Named, Patience, Timer
from kvtune_operator.adapters.pod_records import NodeSeen, PodSeen, node_of, pod_of

R = TypeVar("R", bound=Named)
NODES = "/api/v1/nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The pods of one namespace, and all nodes."""

    namespace: str
    pods: Kept[PodSeen]
    nodes: Kept[NodeSeen]


class Inventory:
    """Starts to watch what is asked for, and ends when nobody asks any more."""

    def __init__(self, kube: Lister, timer: Timer, patience: Patience | None = None) -> None:
        self._kube = kube
        self._timer = timer
        self._patience = patience or Patience()
        self._nodes: _Shared[NodeSeen] = self._shared(NODES, node_of)
        self._pods: dict[str, _Shared[PodSeen]] = {}

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces whose pods are watched now."""
        return tuple(sorted(name for name, pods in self._pods.items() if pods.users))

    @contextlib.asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[View]:
        """Keep the pods of a namespace, and the nodes; several users share what is kept."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = self._pods.setdefault(namespace, self._shared(path, pod_of))
        try:
            async with self._nodes.used() as nodes, pods.used() as kept:
                yield View(namespace=namespace, pods=kept, nodes=nodes)
        finally:
            if not pods.users:
                self._pods.pop(namespace, None)

    def _shared(self, path: str, read: Callable[[Json], R]) -> "_Shared[R]":
        return _Shared(lambda: Kept(self._kube, path, read, self._timer, self._patience))


class _Shared(Generic[R]):
    """Something kept for as long as somebody uses it."""

    def __init__(self, make: Callable[[], Kept[R]]) -> None:
        self._make = make
        self._kept: Kept[R] | None = None
        self._task: asyncio.Task[None] | None = None
        self.users = 0

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[Kept[R]]:
        """Keep it while this is open; the first to come starts, the last to leave ends it."""
        if self._kept is None:
            self._kept = self._make()
            self._task = asyncio.create_task(self._kept.run())
        self.users += 1
        try:
            yield self._kept
        finally:
            self.users -= 1
            if not self.users:
                await self._end()

    async def _end(self) -> None:
        task, self._task, self._kept = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
