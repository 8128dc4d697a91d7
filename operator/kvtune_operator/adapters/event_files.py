"""Events as lines of a file: the port `Events` on a state directory, and in the log.

Equal events (policy, reason, message) are counted; the file is written when a new one comes or a count
reaches the next power of two, so an event of every tick does not write at every tick.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from kvtune_api.codec import canonical
from kvtune_api.names import Reason
from kvtune_operator.eventlog import KeptEvent, read_events
from kvtune_operator.ports import Events, Stored
from kvtune_operator.storage import write_text
from kvtune_tuner.model import Event, EventType

log = logging.getLogger(__name__)

EVENTS_KEPT = 500


_Key = tuple[str, Reason, str]


class FileEvents(Events):
    """Implement `ports.Events` in one file of at most `kept` lines."""

    def __init__(self, path: Path, *, kept: int = EVENTS_KEPT) -> None:
        """Read what is there; raise `Corrupt` with the line."""
        self._path = path
        self._kept = kept
        self._events: dict[_Key, KeptEvent] = {_key(event): event for event in read_events(path)}

    async def record(self, policy: Stored, events: Sequence[Event], now: datetime) -> None:
        """Record the events; equal ones are counted, not repeated."""
        shown = [self._add(policy.metadata.name, event, now) for event in events]
        if any(shown):
            text = "".join(f"{canonical(event)}\n" for event in self._events.values())
            await asyncio.to_thread(write_text, self._path, text)

    def _add(self, policy: str, event: Event, now: datetime) -> bool:
        """Count one event; say whether the file should show it now."""
        key = (policy, event.reason, event.message)
        known = self._events.pop(key, None)
        if known is None:
            level = logging.WARNING if event.type is EventType.WARNING else logging.INFO
            log.log(level, "event", extra={"policy": policy, "reason": event.reason, "text": event.message})
            known = KeptEvent(
                first=now,
                last=now,
                count=0,
                policy=policy,
                type=event.type,
                reason=event.reason,
                message=event.message,
            )
        counted = replace(known, count=known.count + 1, last=now)
        self._events[key] = counted
        while len(self._events) > self._kept:
            del self._events[next(iter(self._events))]
        return counted.count & (counted.count - 1) == 0


def _key(event: KeptEvent) -> _Key:
    return event.policy, event.reason, event.message
