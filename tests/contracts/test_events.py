"""What every record of events must do: the port `Events`, in memory and on a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from kvtune_api.names import Reason
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.eventlog import read_events
from kvtune_operator.ports import Events
from kvtune_tuner.model import Event, EventType
from tests.fakes.clock import ORIGIN
from tests.fakes.objects import FakeEvents
from tests.fakes.samples import policy

LOST = Event(type=EventType.WARNING, reason=Reason.UNREACHABLE, message="2 of 6 agents do not answer")
STARTED = Event(type=EventType.NORMAL, reason=Reason.EXPERIMENT_STARTED, message="chat-1 has started")


@dataclass(frozen=True)
class Book:
    """One implementation, and what it shows: reason and count."""

    events: Events
    shown: Callable[[], Sequence[tuple[Reason, int]]]


@pytest.fixture(params=["memory", "file"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Book:
    if request.param == "memory":
        fake = FakeEvents()
        return Book(fake, lambda: [(item.event.reason, item.count) for item in fake.recorded])
    path = tmp_path / "events.jsonl"
    return Book(FileEvents(path), lambda: [(item.reason, item.count) for item in read_events(path)])


async def test_events_are_kept_in_order(book: Book) -> None:
    await book.events.record(policy(), [LOST, STARTED], ORIGIN)

    assert list(book.shown()) == [(Reason.UNREACHABLE, 1), (Reason.EXPERIMENT_STARTED, 1)]


async def test_an_equal_event_is_counted_and_not_repeated(book: Book) -> None:
    for tick in range(4):
        await book.events.record(policy(), [LOST], ORIGIN + timedelta(seconds=5 * tick))

    assert list(book.shown()) == [(Reason.UNREACHABLE, 4)]


async def test_nothing_to_record_is_no_error(book: Book) -> None:
    await book.events.record(policy(), [], ORIGIN)

    assert list(book.shown()) == []
