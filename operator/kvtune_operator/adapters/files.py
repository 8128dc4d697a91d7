"""Policies, experiments and commands as files of a locked state directory: the port `Objects` on a disk.

Disk work runs in a thread, one call at a time, so that a slow disk does not stop the health endpoint. Reading
is always from the disk; only the order of the experiments is remembered.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from kvtune_api.errors import Conflict, Corrupt
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_operator.ports import Objects, Stored
from kvtune_operator.statedir import (
    Serving,
    StateDir,
    StateLock,
    Wish,
    experiments,
    parse_wish,
    policies,
    refuse_command,
)
from kvtune_operator.storage import read, read_text, unavailable, write
from kvtune_tuner.model import Command

T = TypeVar("T")

log = logging.getLogger(__name__)


class FileObjects(Objects):
    """Implement `ports.Objects` on a state directory that this process holds until `close`."""

    def __init__(self, state: StateDir, *, history_limit: int = 1000) -> None:
        """Make and lock the directory, clean up after killed writers, and read everything once.

        Raises `Locked` naming the holder, `Corrupt` with file and line, `Unavailable` with path and cause.
        """
        self._state = state
        self._history_limit = history_limit
        state.create()
        self._lock = StateLock(state)
        self._busy = asyncio.Lock()
        try:
            state.clean()
            policies(state)
            self._known = {item.metadata.name: _key(item) for item in experiments(state)}
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Give the directory free."""
        self._lock.release()

    async def apply_policy(self, document: KVCachePolicy) -> KVCachePolicy:
        """Store what the user asks for: an equal spec changes nothing, another is a new generation."""
        return await self._in_thread(lambda: self._apply(document))

    async def withdraw_policy(self, name: str, now: datetime) -> None:
        """Mark the policy as removed: what runs for it ends. `apply_policy` takes the mark away."""
        await self._in_thread(lambda: self._withdraw(name, now))

    async def policy(self, name: str) -> KVCachePolicy | None:
        """The policy with its status; None when its file is gone."""
        return await self._in_thread(lambda: read(KVCachePolicy, self._state.policy_file(name)))

    async def protect(self, policy: Stored) -> Stored:
        """Nothing: a policy's file is withdrawn, not deleted, and stays until its experiment has ended."""
        return policy

    async def unprotect(self, policy: Stored) -> Stored:
        """Nothing, as `protect` does nothing."""
        return policy

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write the status; raise `Conflict` when the policy was written since it was read."""
        return await self._in_thread(lambda: self._put_status(policy, status))

    async def experiment(self, name: str) -> KVCacheExperiment | None:
        """One experiment; None when there is none."""
        return await self._in_thread(lambda: read(KVCacheExperiment, self._state.experiment_file(name)))

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Create or replace an experiment; raise `Conflict` when it was written since it was read."""
        return await self._in_thread(lambda: self._put_experiment(experiment))

    async def experiments(self, policy: str) -> tuple[str, ...]:
        """Names of the policy's experiments, oldest first."""
        own = [(number, name) for name, (owner, number) in self._known.items() if owner == policy]
        return tuple(name for _, name in sorted(own))

    async def commands(self, policy: str) -> tuple[Command, ...]:
        """Commands in the inbox, oldest first; what cannot be read moves to inbox/bad and is logged."""
        return await self._in_thread(lambda: self._commands(policy))

    async def forget(self, commands: Sequence[Command]) -> None:
        """Remove the files of commands that have been carried out."""
        await self._in_thread(lambda: self._forget(commands))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        async with self._busy:
            return await asyncio.to_thread(work)

    def _apply(self, document: KVCachePolicy) -> KVCachePolicy:
        name = document.metadata.name
        if read(Serving, self._state.serving) != Serving(policy=name):
            write(self._state.serving, Serving(policy=name))
        held = read(KVCachePolicy, self._state.policy_file(name))
        if held is not None and held.spec == document.spec:
            return held if held.metadata.deletion_timestamp is None else self._store_policy(_wanted(held))
        uid = document.metadata.uid or str(uuid.uuid4())
        old = _wanted(held).metadata if held else Metadata(name=name, uid=uid, generation=0)
        metadata = replace(old, generation=(old.generation or 0) + 1)
        return self._store_policy(replace(document, metadata=metadata, status=held.status if held else None))

    def _withdraw(self, name: str, now: datetime) -> None:
        held = read(KVCachePolicy, self._state.policy_file(name))
        if held is not None and held.metadata.deletion_timestamp is None:
            metadata = replace(held.metadata, deletion_timestamp=now.isoformat())
            self._store_policy(replace(held, metadata=metadata))

    def _put_status(self, policy: Stored, status: PolicyStatus) -> KVCachePolicy:
        name = policy.metadata.name
        held = read(KVCachePolicy, self._state.policy_file(name))
        version = held.metadata.resource_version if held else None
        if held is None or version != policy.metadata.resource_version:
            raise _conflict(f"policy {name}", policy.metadata, version)
        return self._store_policy(replace(held, status=status))

    def _store_policy(self, policy: KVCachePolicy) -> KVCachePolicy:
        stored = replace(policy, metadata=_next_version(policy.metadata))
        write(self._state.policy_file(policy.metadata.name), stored)
        return stored

    def _put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        name = experiment.metadata.name
        path = self._state.experiment_file(name)
        held = read(KVCacheExperiment, path)
        version = held.metadata.resource_version if held else None
        if version != experiment.metadata.resource_version:
            raise _conflict(f"experiment {name}", experiment.metadata, version)
        if held is not None and held.spec != experiment.spec:
            raise Conflict(f"experiment {name}: its spec never changes")
        stored = replace(experiment, metadata=_next_version(experiment.metadata))
        write(path, stored)
        if name not in self._known:
            self._known[name] = _key(experiment)
            self._forget_oldest(experiment.spec.policy)
        return stored

    def _forget_oldest(self, policy: str) -> None:
        own = sorted((number, name) for name, (owner, number) in self._known.items() if owner == policy)
        for _, name in own[: max(0, len(own) - self._history_limit)]:
            _remove(self._state.experiment_file(name))
            del self._known[name]

    def _commands(self, policy: str) -> tuple[Command, ...]:
        found = []
        for path in _waiting(self._state.inbox):
            try:
                text = read_text(path)
                wish = parse_wish(text, str(path)) if text is not None else None
            except Corrupt as error:
                log.warning("unreadable command set aside", extra={"file": path.name, "why": str(error)})
                refuse_command(self._state, path, str(error))
                continue
            if wish is not None and _is_for(wish, policy):
                found.append(Command(id=path.name, verb=wish.verb, target=wish.target, config=wish.config))
        return tuple(found)

    def _forget(self, commands: Sequence[Command]) -> None:
        for command in commands:
            _remove(self._state.inbox / Path(command.id).name)


def _wanted(policy: KVCachePolicy) -> KVCachePolicy:
    """The policy without the mark of removal."""
    return replace(policy, metadata=replace(policy.metadata, deletion_timestamp=None))


def _key(experiment: KVCacheExperiment) -> tuple[str, int]:
    return experiment.spec.policy, experiment.spec.number


def _is_for(wish: Wish, policy: str) -> bool:
    return wish.policy is None or wish.policy == policy


def _next_version(metadata: Metadata) -> Metadata:
    return replace(metadata, resource_version=str(int(metadata.resource_version or 0) + 1))


def _conflict(what: str, read_as: Metadata, held: str | None) -> Conflict:
    return Conflict(f"{what}: read at version {read_as.resource_version}, stored is version {held}")


def _waiting(inbox: Path) -> list[Path]:
    try:
        return sorted(path for path in inbox.iterdir() if path.name[0] != "." and not path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unavailable(inbox, error) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unavailable(path, error) from error
