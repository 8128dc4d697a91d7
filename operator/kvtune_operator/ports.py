"""What the control plane needs from the world, as Protocols. Adapters implement them; fakes do so in tests.

Every method that leaves the process has a timeout of its own and raises `Unavailable` when the whole port
fails; what fails for one agent is a value in its place, so that one dead agent never hides the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from kvtune_api.errors import SpecError
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Push, Report
from kvtune_tuner.model import Command, Event, Limits, PoolSeen, Stalls
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The agents of a policy as the store of nodes and pods knows them."""

    agents: tuple[str, ...]
    """Names, sorted. Agents that are not ready or about to leave are among them."""

    pool: PoolSeen = field(default_factory=PoolSeen)
    """Why agents are missing, about to leave, or another policy's."""


class Agents(Protocol):
    """The cache agents of a pool. Agents are named by their address (standalone) or pod name."""

    async def discover(self, policy: KVCachePolicy, *, also: Sequence[str] = ()) -> Discovered:
        """The agents that the policy selects, and of those named in `also` all that are still there.

        `also` are agents that may run a candidate, whatever the policy selects by now.
        """
        ...

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask every agent what it runs. Parallel, bounded, each with a timeout."""
        ...

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Send each agent its configuration. Parallel, bounded, each with a timeout."""
        ...

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Let each agent run its eviction policy again after a fallback to LRU. As `push` otherwise."""
        ...


class Metrics(Protocol):
    """Raw counters of agents at a time; windows are differences, computed by the tuner."""

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The newest complete sample of every agent (never an incomplete tail), its time in `at`.

        `reports` are the agents' own of this tick, which hold their newest counters.
        """
        ...

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Samples at engine second `at`, or up to `slack_seconds` before it."""
        ...


class Profiles(Protocol):
    """Profiles of the engines: how many samples fell into work for the cache."""

    async def stalls(
        self, agents: Sequence[str], since: float, until: float
    ) -> Mapping[str, Stalls | Missing]:
        """Samples of every agent between two engine seconds, by what they waited for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where one policy's figures come from."""

    metrics: Metrics
    profiles: Profiles | None = None


class House(Protocol):
    """What the control plane allows a policy, seen over all policies and its own settings."""

    def limits(self, policy: KVCachePolicy, now: datetime) -> Limits:
        """Whether an experiment may start or go on now."""
        ...

    def sources(self, policy: KVCachePolicy) -> Sources:
        """Where its figures come from; raise `SpecError` naming the field that keeps it from being known."""
        ...


class Rivals(Protocol):
    """The other policies, for agents that several of them select."""

    def older(self, policy: KVCachePolicy) -> Sequence[KVCachePolicy]:
        """The policies of its namespace that were made before this one: (creation time, uid) is smaller."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """A stored policy whose spec cannot be accepted (an older CRD let it through)."""

    metadata: Metadata
    status: PolicyStatus | None
    error: SpecError


Stored = KVCachePolicy | Invalid
"""A policy as the store has it."""


class Objects(Protocol):
    """Where policies and experiments live: files, or the Kubernetes API."""

    async def policy(self, name: str) -> Stored | None:
        """The policy with its status and resource version; None when it is gone."""
        ...

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write the status; raise `Conflict` when the policy was written since it was read."""
        ...

    async def protect(self, policy: Stored) -> Stored:
        """Keep the policy from vanishing while an experiment is live; nothing when it is so already."""
        ...

    async def unprotect(self, policy: Stored) -> Stored:
        """Undo `protect`, of the policy and of its experiments; nothing when it is undone already."""
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

    async def record(self, policy: Stored, events: Sequence[Event], now: datetime) -> None:
        """Record the events; equal ones (same reason and message) are counted, not repeated."""
        ...
