"""An API server that holds one Lease, and candidates for it with clocks of their own."""

import copy
from typing import Any

from kvtune_api.errors import Conflict, Unavailable
from kvtune_operator.adapters.lease import Lease
from kvtune_operator.adapters.lease_record import LeaseSettings

DURATION = 15.0
"""Seconds for which a lease that is not renewed is held."""


class Machine:
    """A clock per machine: monotonic time moves with sleeps, unix time may be anything."""

    def __init__(self, unix_seconds: float = 1_900_000_000.0) -> None:
        self.seconds = 0.0
        self._unix = unix_seconds

    def monotonic(self) -> float:
        """Seconds since this machine began."""
        return self.seconds

    def unix_milliseconds(self) -> int:
        """What this machine takes the time to be."""
        return int((self._unix + self.seconds) * 1000)

    async def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.seconds += seconds


class Server:
    """Holds one Lease as an API server does: a write with an old resource version is a conflict."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken: str | None = None
        self.writes = 0

    async def get(self, path: str) -> dict[str, Any] | None:
        """The Lease as stored; None without one."""
        self._check()
        return copy.deepcopy(self.lease)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Store the first one."""
        self._check()
        if self.lease is not None:
            raise Conflict("it exists")
        return self._stored(body)

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Store another one in its place, if it was made from the newest."""
        self._check()
        held = (self.lease or {}).get("metadata", {}).get("resourceVersion")
        if body["metadata"].get("resourceVersion") != held:
            raise Conflict("it was written by somebody else")
        return self._stored(body)

    def holder(self) -> str:
        """Who holds it, as stored."""
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])

    def annotation(self, name: str) -> str:
        """An annotation as stored; empty without it."""
        assert self.lease is not None
        return str(self.lease["metadata"].get("annotations", {}).get(name, ""))

    def _check(self) -> None:
        if self.broken is not None:
            raise Unavailable(self.broken)

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.writes += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class After:
    """Says stop after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        """Count one look."""
        self.left -= 1
        return self.left < 0


def candidate(server: Server, machine: Machine, identity: str) -> Lease:
    """Somebody who may take the lease."""
    settings = LeaseSettings(
        namespace="kvtune", name="operator", identity=identity, duration_seconds=DURATION
    )
    return Lease(server, settings, machine)


async def held_by(server: Server, identity: str, machine: Machine | None = None) -> tuple[Lease, Machine]:
    """A candidate that has taken the free lease, and its machine."""
    machine = machine or Machine()
    lease = candidate(server, machine, identity)
    assert await lease.acquire(After(1))
    return lease, machine


async def held_by_after_silence(server: Server, identity: str) -> Lease:
    """A candidate that has waited until the holder's lease ran out."""
    lease = candidate(server, Machine(), identity)
    assert await lease.acquire(After(1000))
    return lease
