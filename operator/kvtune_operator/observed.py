"""Ports that tell telemetry and the health endpoint what passes through them, and change nothing."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from kvtune_api.errors import KvtuneError
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Push, Report
from kvtune_operator.ports import (
    Accepted,
    Agents,
    Clock,
    Discovered,
    Invalid,
    Metrics,
    Objects,
    Refused,
    Stored,
    Unreachable,
)
from kvtune_operator.telemetry import Telemetry
from kvtune_tuner.model import Command
from kvtune_tuner.sli import Missing

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Pulse:
    """When the last step ended, and what was last seen: for the health endpoint."""

    started: float
    """Monotonic wall seconds."""

    last_step: float | None = None
    policies: dict[str, KVCachePolicy] = field(default_factory=dict)
    experiments: dict[str, KVCacheExperiment] = field(default_factory=dict)
    """The newest experiment of each policy."""

    steps: dict[str, float] = field(default_factory=dict)
    """When the last step of each of many policies ended (or its task began)."""


class ObservedClock(Clock):
    """A clock under which every sleep ends a step and every waking begins one."""

    def __init__(
        self,
        clock: Clock,
        pulse: Pulse,
        telemetry: Telemetry,
        monotonic: Callable[[], float],
        *,
        policy: str | None = None,
    ) -> None:
        """`policy` is whose steps these are, where there are many."""
        self._policy = policy
        self._clock = clock
        self._pulse = pulse
        self._telemetry = telemetry
        self._monotonic = monotonic
        self._began = monotonic()

    def now(self) -> datetime:
        """The clock's time."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Note the step's end, sleep, note the next step's begin."""
        ended = self._monotonic()
        self._pulse.last_step = ended
        if self._policy is not None:
            self._pulse.steps[self._policy] = ended
        self._telemetry.tick(ended - self._began)
        log.debug("step", extra={"policy": self._policy, "seconds": round(ended - self._began, 4)})
        await self._clock.sleep(seconds)
        self._began = self._monotonic()


class ObservedAgents(Agents):
    """Agents whose answers to pushes are counted."""

    def __init__(self, agents: Agents, telemetry: Telemetry) -> None:
        self._agents = agents
        self._telemetry = telemetry

    async def discover(self, policy: KVCachePolicy, *, also: Sequence[str] = ()) -> Discovered:
        """The agents of a policy."""
        return await _counted(self._telemetry, self._agents.discover(policy, also=also))

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Reports of the agents."""
        return await _counted(self._telemetry, self._agents.reports(agents))

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Push, and count the answers."""
        answers = await _counted(self._telemetry, self._agents.push(pushes))
        self._telemetry.pushed(type(answer).__name__ for answer in answers.values())
        return answers

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Let agents run their eviction policy again."""
        return await _counted(self._telemetry, self._agents.restore(agents))


class ObservedMetrics(Metrics):
    """Metrics whose missing samples are counted."""

    def __init__(self, metrics: Metrics, telemetry: Telemetry) -> None:
        self._metrics = metrics
        self._telemetry = telemetry

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The newest samples."""
        return self._seen(await _counted(self._telemetry, self._metrics.newest(reports)))

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Samples at a time."""
        asked = self._metrics.counters_at(agents, at, slack_seconds=slack_seconds)
        return self._seen(await _counted(self._telemetry, asked))

    def _seen(self, samples: Mapping[str, Counters | Missing]) -> Mapping[str, Counters | Missing]:
        missing = [sample for sample in samples.values() if isinstance(sample, Missing)]
        self._telemetry.missing(sample.reason for sample in missing)
        return samples


class ObservedObjects(Objects):
    """Objects whose newest states are kept for the health endpoint and shown as metrics."""

    def __init__(self, objects: Objects, pulse: Pulse, telemetry: Telemetry, *, scope: str = "") -> None:
        """`scope` stands before the policies' names: `namespace/` where there are many namespaces."""
        self._scope = scope
        self._objects = objects
        self._pulse = pulse
        self._telemetry = telemetry

    async def policy(self, name: str) -> Stored | None:
        """The policy."""
        policy = await _counted(self._telemetry, self._objects.policy(name))
        if policy is None:
            self._pulse.policies.pop(self._scope + name, None)
        else:
            self._show(policy)
        return policy

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write a status."""
        stored = await _counted(self._telemetry, self._objects.put_policy_status(policy, status))
        self._show(stored)
        return stored

    async def protect(self, policy: Stored) -> Stored:
        """Keep the policy from vanishing."""
        return await _counted(self._telemetry, self._objects.protect(policy))

    async def unprotect(self, policy: Stored) -> Stored:
        """Let it go."""
        return await _counted(self._telemetry, self._objects.unprotect(policy))

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """One experiment."""
        found = await _counted(self._telemetry, self._objects.experiment(name))
        if found is not None:
            self._pulse.experiments[self._scope + found.spec.policy] = found
        return found

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Write an experiment."""
        stored = await _counted(self._telemetry, self._objects.put_experiment(experiment))
        policy = self._scope + stored.spec.policy
        self._pulse.experiments[policy] = stored
        self._telemetry.experiment(policy, stored)
        return stored

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of experiments."""
        return await _counted(self._telemetry, self._objects.experiments(policy))

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """Commands of users."""
        return await _counted(self._telemetry, self._objects.commands(policy))

    async def forget(self, commands: Sequence[Command]) -> None:
        """Drop commands."""
        await _counted(self._telemetry, self._objects.forget(commands))

    def _show(self, policy: Stored) -> None:
        if isinstance(policy, Invalid):
            return
        name = self._scope + policy.metadata.name
        self._pulse.policies[name] = policy
        if policy.status is not None:
            self._telemetry.status(name, policy.status)


async def _counted(telemetry: Telemetry, call: Awaitable[T]) -> T:
    """Await a call and count it when it fails on purpose."""
    try:
        return await call
    except KvtuneError as error:
        telemetry.failed(type(error).__name__)
        raise
