"""Objects and events in memory: fakes of the ports `Objects` and `Events`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kvtune_api.errors import Conflict, Forbidden, Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.names import FINALIZER
from kvtune_api.policy import KVCachePolicy, PolicySpec
from kvtune_api.status import PolicyStatus
from kvtune_operator.ports import Objects, Stored
from kvtune_tuner.model import Command, Event, EventType, Verb


class FakeObjects(Objects):
    """Implement `ports.Objects` in memory. `broken` makes every call raise `Unavailable`."""

    def __init__(self) -> None:
        self._policies: dict[str, KVCachePolicy] = {}
        self._experiments: dict[str, KVCacheExperiment] = {}
        self._commands: list[Command] = []
        self._version = 0
        self.broken: str | None = None
        """Why nothing can be read or written, while set."""

        self.lacking: str | None = None
        """The right that we lack to write statuses, while set."""

        self.writes = 0
        """How many writes were carried out."""

    def apply(self, name: str, spec: PolicySpec) -> KVCachePolicy:
        """Store the user's policy as `kubectl apply` does; a changed spec is a new generation."""
        old = self._policies.get(name)
        if old is not None and old.spec == spec:
            return old
        generation = (old.metadata.generation or 0) + 1 if old else 1
        metadata = Metadata(name=name, uid=f"uid-{name}", generation=generation)
        return self._store_policy(
            KVCachePolicy(metadata=metadata, spec=spec, status=old.status if old else None)
        )

    def delete_policy(self, name: str) -> None:
        """Remove a policy."""
        del self._policies[name]

    def command(self, verb: Verb, target: str = "") -> Command:
        """Leave a wish of a user."""
        self._version += 1
        command = Command(id=f"{self._version:06d}", verb=verb, target=target)
        self._commands.append(command)
        return command

    async def policy(self, name: str) -> KVCachePolicy | None:
        """The policy as stored."""
        self._check()
        return self._policies.get(name)

    async def protect(self, policy: Stored) -> Stored:
        """Set the finalizer."""
        self._check()
        return self._with_finalizers(policy, (FINALIZER,))

    async def unprotect(self, policy: Stored) -> Stored:
        """Remove the finalizer."""
        self._check()
        return self._with_finalizers(policy, None)

    def _with_finalizers(self, policy: Stored, wanted: tuple[str, ...] | None) -> Stored:
        held = self._policies.get(policy.metadata.name)
        if held is None or held.metadata.finalizers == wanted:
            return policy
        if held.metadata.resource_version != policy.metadata.resource_version:
            raise Conflict(f"policy {policy.metadata.name}: was written by somebody else")
        return self._store_policy(replace(held, metadata=replace(held.metadata, finalizers=wanted)))

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write the status if nobody has written since `policy` was read."""
        self._check()
        if self.lacking is not None:
            raise Forbidden(self.lacking)
        held = self._policies.get(policy.metadata.name)
        if held is None or held.metadata.resource_version != policy.metadata.resource_version:
            raise Conflict(f"policy {policy.metadata.name}: was written by somebody else")
        return self._store_policy(replace(held, status=status))

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """The experiment as stored."""
        self._check()
        return self._experiments.get(name)

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Create or replace if nobody has written since `experiment` was read."""
        self._check()
        held = self._experiments.get(experiment.metadata.name)
        version = held.metadata.resource_version if held else None
        if version != experiment.metadata.resource_version:
            raise Conflict(f"experiment {experiment.metadata.name}: was written by somebody else")
        if held is not None and held.spec != experiment.spec:
            raise Conflict(f"experiment {experiment.metadata.name}: its spec never changes")
        stored = replace(experiment, metadata=self._next(experiment.metadata))
        self._experiments[experiment.metadata.name] = stored
        return stored

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of the policy's experiments, oldest first."""
        self._check()
        own = [item for item in self._experiments.values() if item.spec.policy == policy]
        return tuple(item.metadata.name for item in sorted(own, key=lambda item: item.spec.number))

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """All commands that are left."""
        self._check()
        return tuple(self._commands)

    async def forget(self, commands: Sequence[Command]) -> None:
        """Drop commands."""
        self._check()
        gone = {command.id for command in commands}
        self._commands = [command for command in self._commands if command.id not in gone]

    def _check(self) -> None:
        if self.broken is not None:
            raise Unavailable(self.broken)

    def _store_policy(self, policy: KVCachePolicy) -> KVCachePolicy:
        stored = replace(policy, metadata=self._next(policy.metadata))
        self._policies[policy.metadata.name] = stored
        return stored

    def _next(self, metadata: Metadata) -> Metadata:
        self._version += 1
        self.writes += 1
        return replace(metadata, resource_version=str(self._version))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One event with how often it was recorded."""

    event: Event
    at: datetime
    count: int = 1

    @property
    def is_warning(self) -> bool:
        """Whether users should look."""
        return self.event.type is EventType.WARNING


class FakeEvents:
    """Implement `ports.Events` in memory: equal events are counted, not repeated."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []

    async def record(self, policy: Stored, events: Sequence[Event], now: datetime) -> None:
        """Keep the events."""
        for event in events:
            for index, known in enumerate(self.recorded):
                if known.event == event:
                    self.recorded[index] = replace(known, count=known.count + 1)
                    break
            else:
                self.recorded.append(Recorded(event=event, at=now))
