"""Create an experiment beside records of its name that others have left. Called by reconcile.py."""

from dataclasses import replace

from kvtune_api.errors import Conflict
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.status import PolicyStatus
from kvtune_operator.gather import made_for
from kvtune_operator.ports import Objects, Stored


async def kept_another(objects: Objects, experiment: KVCacheExperiment, policy: Stored) -> bool:
    """Write the experiment; True when one of this name is kept instead, which no status ever named.

    A writer killed between experiment and status left it. It stays as it is, for a spec never changes,
    and the next tick goes on with it; nothing of this plan is pushed. Any other record of this name (of an
    older policy, or ended) stays too: `Conflict`, and the next attempt numbers on past all of them.
    """
    try:
        await objects.put_experiment(experiment)
    except Conflict:
        if experiment.metadata.resource_version is not None:
            raise
        left_behind = await objects.experiment(experiment.metadata.name)
        if left_behind is None:
            raise
        if left_behind.status.outcome is None and made_for(left_behind, policy.metadata):
            return True
        await _number_past(objects, policy)
        raise
    return False


async def _number_past(objects: Objects, policy: Stored) -> None:
    """Write that the policy has started as many experiments as the highest number in the store says."""
    status = policy.status or PolicyStatus()
    names = await objects.experiments(policy.metadata.name)
    newest = await objects.experiment(names[-1]) if names else None
    if newest is not None and newest.spec.number > status.experiments_started:
        status = replace(status, experiments_started=newest.spec.number)
        await objects.put_policy_status(policy, status)
