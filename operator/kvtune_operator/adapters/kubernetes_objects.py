"""Policies, experiments and commands in Kubernetes: the port `Objects` on an API server, for one namespace.

Never writes a policy's spec. Ours are: its status, our finalizer on policy and experiment while one is live,
and the annotations that are commands, once carried out. Remembers only what saves calls while nothing
happens; an experiment that was deleted in mid-run is read with its `deletion_timestamp` until it is released.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kvtune_api.errors import Conflict, Problem, SpecError, Unavailable
from kvtune_api.experiment import ExperimentSpec, KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.names import EXPERIMENTS, FINALIZER, LABEL_POLICY_NAME, Reason
from kvtune_api.status import PolicyStatus
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kube_errors import Absent
from kvtune_operator.adapters.kubernetes_forms import (
    Json,
    UnreadableStatus,
    age,
    annotation_removed,
    collection,
    commands_in,
    experiment_body,
    experiment_in,
    experiment_path,
    experiment_status_body,
    finalizer_added,
    finalizer_removed,
    guarded,
    made_for,
    metadata_in,
    policy_in,
    policy_path,
    policy_status_body,
    rightly_owned,
    wish_in,
)
from kvtune_operator.ports import Invalid, Objects, Stored
from kvtune_tuner.model import Command, Event, EventType

log = logging.getLogger(__name__)

WRITES_A_TICK = 10
"""At most this many old experiments are deleted, or given another owner, in one tick of a policy."""

DROP_ATTEMPTS = 3
"""So often a command is removed that others write beside; then again when it has been carried out again."""

OBJECT_BYTES = 1 << 20
"""etcd takes 1.5 MiB a request (its --max-request-bytes); no status of ours comes near."""

Tell = Callable[[Stored, Event], Awaitable[None]]


async def logged(policy: Stored, event: Event) -> None:
    """Tell of an event in the log alone."""
    log.warning("event", extra={"policy": policy.metadata.name, "text": event.message})


class KubernetesObjects(Objects):
    """Implement `ports.Objects` over the policies of one namespace."""

    def __init__(self, kube: Kube, namespace: str, *, tell: Tell = logged) -> None:
        """`tell` takes events that no plan knows of: a command or a status that cannot be read."""
        self._kube = kube
        self._namespace = namespace
        self._tell = tell
        self._read: dict[str, Stored] = {}
        """What `policy` has read and `commands` not yet looked at: one call serves both."""

        self._tidy: dict[str, tuple[str | None, int | None]] = {}
        """Policies of which nothing is left to release or to prune, with uid and generation."""

        self._live: dict[str, ExperimentSpec] = {}
        """Experiments that carry our finalizer, as far as this process has seen them."""

    async def policy(self, name: str) -> Stored | None:
        """The policy; None when it is gone. Raises `Unavailable` when its status cannot be read."""
        raw = await self._kube.get(policy_path(self._namespace, name))
        self._read.pop(name, None)
        if raw is None:
            await self._forgotten(name)
            return None
        try:
            self._read[name] = stored = policy_in(raw)
        except UnreadableStatus as error:
            event = Event(type=EventType.WARNING, reason=Reason.INVALID, message=str(error))
            await self._tell(_nameless(error.metadata, error), event)
            raise
        return stored

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write the status; raise `Conflict` when the policy was written since it was read."""
        path = f"{policy_path(self._namespace, policy.metadata.name)}/status"
        raw = await self._written(path, policy_status_body(policy, status))
        return _with(policy, raw, status)

    async def protect(self, policy: Stored) -> Stored:
        """Set our finalizer; nothing when it is set, or when the policy is being deleted already."""
        metadata = policy.metadata
        self._tidy.pop(metadata.name, None)
        if FINALIZER in (metadata.finalizers or ()) or metadata.deletion_timestamp is not None:
            return policy
        steps = [guarded(metadata), *finalizer_added(metadata)]
        raw = await self._kube.patch(policy_path(self._namespace, metadata.name), steps)
        if raw is None:
            raise Conflict(f"policy {metadata.name}: is gone")
        return _with(policy, raw, policy.status)

    async def unprotect(self, policy: Stored) -> Stored:
        """Remove our finalizer from the policy's experiments and then from the policy; prune its history.

        Costs no call when the policy carries none and was found tidy before. Looks once after a restart, and
        after each edit of the policy.
        """
        metadata = policy.metadata
        name, state = metadata.name, (metadata.uid, metadata.generation)
        carried = FINALIZER in (metadata.finalizers or ())
        if not carried and self._tidy.get(name) == state:
            return policy
        if await self._tidied(policy):
            self._tidy[name] = state
        if not carried:
            return policy
        steps = [guarded(metadata), *finalizer_removed(metadata.finalizers or ())]
        raw = await self._kube.patch(policy_path(self._namespace, name), steps)
        return policy if raw is None else _with(policy, raw, policy.status)

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """One experiment; None when there is none."""
        raw = await self._kube.get(experiment_path(self._namespace, name))
        return None if raw is None else self._seen(experiment_in(raw))

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Create an experiment, then write its status; raise `Conflict` on a stale reading or another spec.

        Of one that was read only the status is written.
        """
        name = experiment.metadata.name
        if experiment.metadata.resource_version is None:
            return await self._status_written(replace(experiment, metadata=await self._created(experiment)))
        if name not in self._live and (held := await self.experiment(name)) is not None:
            self._live.setdefault(name, held.spec)
        if self._live.get(name, experiment.spec) != experiment.spec:
            raise Conflict(f"experiment {name}: its spec never changes")
        return await self._status_written(experiment)

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of the policy's experiments, oldest first."""
        return tuple(raw["metadata"]["name"] for raw in await self._outlines(policy))

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """Commands in the annotations of the policy; one that cannot be read is told of and removed."""
        stored = self._read.pop(policy, None) or await self.policy(policy)
        self._read.pop(policy, None)
        if stored is None:
            return ()
        found, bad = commands_in(stored.metadata)
        for wish in bad:
            await self._dropped(wish.id)
            event = Event(type=EventType.WARNING, reason=Reason.NOT_AVAILABLE, message=f"try: {wish.problem}")
            await self._tell(stored, event)
        return found

    async def forget(self, commands: Sequence[Command]) -> None:
        """Remove the annotations of commands that have been carried out, unless they were changed."""
        for command in commands:
            await self._dropped(command.id)

    async def _dropped(self, id: str) -> None:
        """Remove a command where it still stands as it was read; a newer one in its place stays."""
        policy, key, value = wish_in(id)
        self._read.pop(policy, None)
        path = policy_path(self._namespace, policy)
        for _ in range(DROP_ATTEMPTS):
            raw = await self._kube.get(path)
            metadata = None if raw is None else metadata_in(raw)
            if metadata is None or (metadata.annotations or {}).get(key) != value:
                return
            try:
                await self._kube.patch(path, annotation_removed(metadata, key))
            except Conflict:
                continue
            return
        log.warning("command not removed yet, others write the policy", extra={"policy": policy})

    async def _forgotten(self, policy: str) -> None:
        """Forget a policy that is gone; release experiments whose policy was freed by somebody else."""
        self._tidy.pop(policy, None)
        for name, spec in tuple(self._live.items()):
            if spec.policy != policy:
                continue
            raw = await self._kube.get(experiment_path(self._namespace, name))
            await self._released(name, _finalizers(raw) if raw else ())

    async def _written(self, path: str, body: Json) -> Json:
        size = len(json.dumps(body))
        if size > OBJECT_BYTES:
            raise Unavailable(f"{path}: {size} bytes are too large to be stored, at most {OBJECT_BYTES} are")
        try:
            return await self._kube.replace(path, body)
        except Absent as error:
            raise Conflict(str(error)) from error

    async def _created(self, experiment: KVCacheExperiment) -> Metadata:
        path = collection(self._namespace, EXPERIMENTS)
        body = experiment_body(experiment, self._namespace)
        try:
            return metadata_in(await self._kube.create(path, body))
        except Conflict:
            held = await self._unbegun(experiment)
            return held or metadata_in(await self._kube.create(path, body))

    async def _unbegun(self, experiment: KVCacheExperiment) -> Metadata | None:
        """What a writer left that was killed before it wrote a status; raise `Conflict` when it did.

        Without a status nothing was ever done for it: the same experiment goes on, another one is deleted.
        """
        name = experiment.metadata.name
        raw = await self._kube.get(experiment_path(self._namespace, name))
        if raw is not None and raw.get("status"):
            raise Conflict(f"experiment {name}: there is one of this name")
        if raw is None:
            return None
        metadata = metadata_in(raw)
        if metadata.deletion_timestamp is None and FINALIZER in (metadata.finalizers or ()):
            try:
                if experiment_in(raw).spec == experiment.spec:
                    return metadata
            except Unavailable as error:
                log.warning("unreadable experiment without a status", extra={"why": str(error)})
        await self._released(name, metadata.finalizers or ())
        await self._kube.delete(experiment_path(self._namespace, name))
        return None

    async def _status_written(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        metadata = replace(experiment.metadata, namespace=self._namespace)
        body = experiment_status_body(replace(experiment, metadata=metadata))
        raw = await self._written(f"{experiment_path(self._namespace, metadata.name)}/status", body)
        return self._seen(replace(experiment, metadata=metadata_in(raw)))

    def _seen(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        if FINALIZER in (experiment.metadata.finalizers or ()):
            self._live[experiment.metadata.name] = experiment.spec
        return experiment

    async def _outlines(self, policy: str) -> list[Json]:
        path = collection(self._namespace, EXPERIMENTS)
        found = self._kube.outlines(path, labelSelector=f"{LABEL_POLICY_NAME}={policy}")
        return sorted([raw async for raw in found], key=lambda raw: age(raw["metadata"]["name"]))

    async def _tidied(self, policy: Stored) -> bool:
        """Release all experiments, prune the history and set their owner; say whether all is done.

        Those of an older policy of this name are released, and left alone otherwise: somebody keeps them.
        """
        found = await self._outlines(policy.metadata.name)
        for raw in found:
            await self._released(raw["metadata"]["name"], _finalizers(raw))
        if policy.metadata.deletion_timestamp is not None or isinstance(policy, Invalid):
            return True
        own = [raw for raw in found if made_for(raw) == policy.metadata.uid]
        too_many = own[: max(0, len(own) - policy.spec.history_limit)]
        for raw in too_many[:WRITES_A_TICK]:
            await self._kube.delete(experiment_path(self._namespace, raw["metadata"]["name"]))
        left = WRITES_A_TICK - len(too_many)
        others = [(raw, body) for raw in own[len(too_many) :] if (body := rightly_owned(policy, raw))]
        for raw, body in others[: max(0, left)]:
            await self._kube.merge(experiment_path(self._namespace, raw["metadata"]["name"]), body)
        return len(others) <= left

    async def _released(self, name: str, finalizers: tuple[str, ...]) -> None:
        if FINALIZER in finalizers:
            await self._kube.patch(experiment_path(self._namespace, name), finalizer_removed(finalizers))
        self._live.pop(name, None)


def _finalizers(raw: Json) -> tuple[str, ...]:
    return tuple(raw["metadata"].get("finalizers") or ())


def _with(policy: Stored, raw: Json, status: PolicyStatus | None) -> Stored:
    """The policy as it is after a write."""
    if isinstance(policy, Invalid):
        return replace(policy, metadata=metadata_in(raw), status=status)
    return replace(policy, metadata=metadata_in(raw), status=status)


def _nameless(metadata: Metadata, error: UnreadableStatus) -> Invalid:
    return Invalid(metadata=metadata, status=None, error=SpecError(Problem("status", str(error))))
