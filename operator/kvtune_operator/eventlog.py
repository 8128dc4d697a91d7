"""Events as kept on a disk: one JSON line each. Written by the event adapter, read by the command line."""

from datetime import datetime
from pathlib import Path

from kvtune_api.codec import frozen, parse_json
from kvtune_api.errors import Corrupt, SpecError
from kvtune_api.names import Reason
from kvtune_operator.storage import read_text
from kvtune_tuner.model import EventType


@frozen
class KeptEvent:
    """One line: an event, and how often it came."""

    first: datetime
    last: datetime
    count: int = 1
    policy: str
    type: EventType
    reason: Reason
    message: str


def read_events(path: Path) -> tuple[KeptEvent, ...]:
    """The events of a file, oldest first; none when there is no file. Raises `Corrupt` with the line."""
    lines = (read_text(path) or "").splitlines()
    return tuple(_event(line, f"{path} line {number}") for number, line in enumerate(lines, 1))


def _event(line: str, where: str) -> KeptEvent:
    try:
        return parse_json(KeptEvent, line)
    except SpecError as error:
        raise Corrupt(f"{where}: {error}") from error
