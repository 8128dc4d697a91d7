"""What the control plane needs from the world, as Protocols. Adapters implement them; fakes do so in tests.

Every method that leaves the process has a timeout of its own and raises `Unavailable` when the whole port
fails; what fails for one agent is a value in its place, so that one dead agent never hides the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy, Selector
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Push, Report
from kvtune_tuner.model import Command, Event
from kvtune_tuner.sli import Missing


class Clock(Protocol):
    """Time, possibly scaled."""

    def now(self) -> datetime:
        """The (scaled) time, aware."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for scaled seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """An agent did not answer, or not with what it should."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An agent took a push."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An agent answered a push with 4xx: the status, its machine reason and message."""

    status: int
    reason: str
    message: str


class Agents(Protocol):
    """The cache agents of a pool. Agents are named by their address (standalone) or pod name."""

    async def discover(self, selector: Selector) -> tuple[str, ...]:
        """Names of the agents that the selector selects, sorted."""
        ...

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask every agent what it runs. Parallel, bounded, each with a timeout."""
        ...

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Send each agent its configuration. Parallel, bounded, each with a timeout."""
        ...


class Metrics(Protocol):
    """Raw counters of agents at a time; windows are differences, computed by the tuner."""

    async def newest(self, agents: Sequence[str]) -> Mapping[str, Counters | Missing]:
        """The newest complete sample of every agent (never an incomplete tail), its time in `at`."""
        ...

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Samples at engine second `at`, or up to `slack_seconds` before it."""
        ...


class Objects(Protocol):
    """Where policies and experiments live: files, or the Kubernetes API."""

    async def policy(self, name: str) -> KVCachePolicy | None:
        """The policy with its status and resource version; None when it is gone."""
        ...

    async def put_policy_status(self, policy: KVCachePolicy, status: PolicyStatus) -> KVCachePolicy:
        """Write the status; raise `Conflict` when the policy was written since it was read."""
        ...

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """One experiment; None when there is none."""
        ...

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Create or replace an experiment; raise `Conflict` on a stale reading or another spec."""
        ...

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of the policy's experiments, oldest first."""
        ...

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """Commands that users have left for this policy, oldest first."""
        ...

    async def forget(self, commands: Sequence[Command]) -> None:
        """Drop commands that have been carried out."""
        ...


class Events(Protocol):
    """Where events for users go."""

    async def record(self, policy: KVCachePolicy, events: Sequence[Event], now: datetime) -> None:
        """Record the events; equal ones (same reason and message) are counted, not repeated."""
        ...
