"""Free experiments whose policy is gone: what stays when a user has freed a policy by hand.

While a control plane runs, KubernetesObjects does so by itself; this is for its start.
"""

from kvtune_api.names import FINALIZER, LABEL_POLICY_NAME
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import (
    experiment_path,
    experiments_path,
    finalizer_removed,
    policy_path,
)


async def free_orphans(kube: Kube, namespace: str | None) -> tuple[str, ...]:
    """Free them in a namespace, or (None) in all; return `namespace/name` of each. Raises `Unavailable`."""
    freed = []
    async for raw in kube.outlines(experiments_path(namespace)):
        metadata = raw["metadata"]
        finalizers = tuple(metadata.get("finalizers") or ())
        policy = (metadata.get("labels") or {}).get(LABEL_POLICY_NAME)
        if FINALIZER not in finalizers:
            continue
        home, name = metadata["namespace"], metadata["name"]
        if policy and await kube.get(policy_path(home, policy)) is not None:
            continue
        await kube.patch(experiment_path(home, name), finalizer_removed(finalizers))
        freed.append(f"{home}/{name}")
    return tuple(freed)
