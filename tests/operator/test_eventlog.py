"""Events on a disk: bounded, counted without a write at every tick, refused by line when damaged."""

from datetime import timedelta
from pathlib import Path

import pytest

from kvtune_api.errors import Corrupt
from kvtune_api.names import Reason
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.eventlog import read_events
from kvtune_tuner.model import Event, EventType
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import policy


def event(text: str) -> Event:
    return Event(type=EventType.WARNING, reason=Reason.UNREACHABLE, message=text)


async def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    events = FileEvents(tmp_path / "events.jsonl", kept=3)

    for number in range(5):
        await events.record(policy(), [event(f"{number}")], ORIGIN)

    assert [item.message for item in read_events(tmp_path / "events.jsonl")] == ["2", "3", "4"]


async def test_an_event_of_every_tick_does_not_write_at_every_tick(tmp_path: Path) -> None:
    path, written = tmp_path / "events.jsonl", set[int]()
    events = FileEvents(path)

    for tick in range(100):
        await events.record(policy(), [event("same")], ORIGIN + timedelta(seconds=5 * tick))
        written.add(path.stat().st_ino)

    assert read_events(path)[0].count == 64
    assert read_events(path)[0].first == ORIGIN


async def test_counting_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    await FileEvents(path).record(policy(), [event("same")], ORIGIN)

    await FileEvents(path).record(policy(), [event("same")], ORIGIN)

    assert [item.count for item in read_events(path)] == [2]


def test_a_damaged_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n\n")

    with pytest.raises(Corrupt, match=r"events\.jsonl line 1: "):
        read_events(path)
