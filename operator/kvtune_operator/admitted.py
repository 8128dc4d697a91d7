"""Objects of one namespace, seen by the house: reading and writing keeps its view of all policies new."""

from collections.abc import Sequence

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.status import PolicyStatus
from kvtune_operator.house import ClusterHouse
from kvtune_operator.ports import Objects, Stored
from kvtune_tuner.model import Command


class AdmittedObjects(Objects):
    """Objects that let an experiment begin only while the house has a place for it."""

    def __init__(self, objects: Objects, house: ClusterHouse, namespace: str) -> None:
        self._objects = objects
        self._house = house
        self._namespace = namespace

    async def policy(self, name: str) -> Stored | None:
        """The policy; the house sees it."""
        found = await self._objects.policy(name)
        if found is None:
            self._house.gone((self._namespace, name))
        else:
            self._house.saw(found)
        return found

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write the status; the house sees it."""
        stored = await self._objects.put_policy_status(policy, status)
        self._house.saw(stored)
        return stored

    async def protect(self, policy: Stored) -> Stored:
        """Keep the policy from vanishing."""
        return await self._objects.protect(policy)

    async def unprotect(self, policy: Stored) -> Stored:
        """Let it go."""
        return await self._objects.unprotect(policy)

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """One experiment."""
        return await self._objects.experiment(name)

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Write an experiment; a new one only where there is a place, else `Conflict`."""
        if experiment.metadata.resource_version is None and experiment.status.outcome is None:
            self._house.admit((self._namespace, experiment.spec.policy))
        return await self._objects.put_experiment(experiment)

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of experiments."""
        return await self._objects.experiments(policy)

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """Commands of users."""
        return await self._objects.commands(policy)

    async def forget(self, commands: Sequence[Command]) -> None:
        """Drop commands."""
        await self._objects.forget(commands)
