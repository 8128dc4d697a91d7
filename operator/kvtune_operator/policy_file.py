"""Follow the file that a policy came from: an edit is applied, a wrong one told, a removal ends the policy.

Run as a task beside the reconciler, by the root of a standalone control plane.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from kvtune_api.errors import KvtuneError, Problem, SpecError, Unavailable
from kvtune_api.names import Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.documents import read_policy
from kvtune_operator.ports import Clock, Events
from kvtune_tuner.model import Event, EventType

log = logging.getLogger(__name__)

LOOKS_BEFORE_REMOVED = 3
"""An editor may take a file away for a moment while it saves."""

Stamp = tuple[int, int, int]


class Store(Protocol):
    """Where the policy is kept."""

    async def apply_policy(self, document: KVCachePolicy) -> KVCachePolicy:
        """Store what the user asks for."""
        ...

    async def withdraw_policy(self, name: str, now: datetime) -> None:
        """Mark the policy as removed."""
        ...


class PolicyFile:
    """The file of one policy, looked at once per tick."""

    def __init__(
        self,
        path: Path,
        policy: KVCachePolicy,
        *,
        store: Store,
        events: Events,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._path = path
        self._policy = policy
        self._store = store
        self._events = events
        self._clock = clock
        self._say = say
        self._seen = _stamp(path)
        self._absent = 0

    async def follow(self, every_seconds: float) -> None:
        """Look again and again until cancelled; a store or a file that fails is told and tried again."""
        while True:
            await self._clock.sleep(every_seconds)
            try:
                await self.look()
            except KvtuneError as error:
                log.warning("policy file not followed, trying again", extra={"error": str(error)})
            except Exception:  # a bug in reading one edit must not end the following of all later ones
                log.exception("policy file not followed, trying again")

    async def look(self) -> None:
        """One look. Raises `Unavailable` when the store or the file fails; the next look tries again."""
        now = await asyncio.to_thread(_stamp, self._path)
        if now is None:
            self._absent += 1
            if self._absent >= LOOKS_BEFORE_REMOVED:
                await self._withdraw()
            return
        came_back = self._absent >= LOOKS_BEFORE_REMOVED
        self._absent = 0
        if now == self._seen and not came_back:
            return
        try:
            await self._apply()
        except SpecError as error:
            await self._warn(Reason.INVALID, f"{self._path} is not applied: {error}")
        self._seen = now

    async def _withdraw(self) -> None:
        if self._absent == LOOKS_BEFORE_REMOVED:
            text = f"{self._path} was removed: what runs ends, incumbents come back, this control plane stops"
            self._say(text)
            await self._warn(Reason.SUPERSEDED, text)
        await self._store.withdraw_policy(self._policy.metadata.name, self._clock.now())

    async def _apply(self) -> None:
        document = await asyncio.to_thread(read_policy, self._path)
        name = self._policy.metadata.name
        if document.metadata.name != name:
            text = f"is now {document.metadata.name}, this control plane runs {name}"
            raise SpecError(Problem("metadata.name", text))
        stored = await self._store.apply_policy(document)
        log.info("policy file read again", extra={"generation": stored.metadata.generation})

    async def _warn(self, reason: Reason, message: str) -> None:
        event = Event(type=EventType.WARNING, reason=reason, message=message)
        await self._events.record(self._policy, (event,), self._clock.now())


def _stamp(path: Path) -> Stamp | None:
    """What tells one content of a file from the next; None when there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror or error}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino
