"""What every record of events must do: the port `Events`, in memory, on a file, in a cluster."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from kvtune_api.metadata import Metadata
from kvtune_api.names import Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_events import KubernetesEvents
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
    shown: Callable[[], Awaitable[Sequence[tuple[Reason, int]]]]
    policy: KVCachePolicy


@pytest.fixture(params=["memory", "file", "cluster"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Book:
    if request.param == "memory":
        return in_memory()
    if request.param == "cluster":
        return in_cluster(request.getfixturevalue("kube"), request.getfixturevalue("namespace"))
    return in_file(tmp_path / "events.jsonl")


def in_memory() -> Book:
    fake = FakeEvents()

    async def shown() -> Sequence[tuple[Reason, int]]:
        return [(item.event.reason, item.count) for item in fake.recorded]

    return Book(fake, shown, policy())


def in_file(path: Path) -> Book:
    async def shown() -> Sequence[tuple[Reason, int]]:
        return [(item.reason, item.count) for item in read_events(path)]

    return Book(FileEvents(path), shown, policy())


def in_cluster(kube: Kube, namespace: str) -> Book:
    async def shown() -> Sequence[tuple[Reason, int]]:
        events = [item async for item in kube.pages(f"/api/v1/namespaces/{namespace}/events")]
        made = sorted(events, key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [(Reason(item["reason"]), item["count"]) for item in made]

    there = Metadata(name="chat", namespace=namespace, uid="uid-chat")
    return Book(KubernetesEvents(kube), shown, replace(policy(), metadata=there))


async def test_events_are_kept_in_order(book: Book) -> None:
    await book.events.record(book.policy, [LOST, STARTED], ORIGIN)

    assert list(await book.shown()) == [(Reason.UNREACHABLE, 1), (Reason.EXPERIMENT_STARTED, 1)]


async def test_an_equal_event_is_counted_and_not_repeated(book: Book) -> None:
    for tick in range(4):
        await book.events.record(book.policy, [LOST], ORIGIN + timedelta(minutes=tick))

    assert list(await book.shown()) == [(Reason.UNREACHABLE, 4)]


async def test_nothing_to_record_is_no_error(book: Book) -> None:
    await book.events.record(book.policy, [], ORIGIN)

    assert list(await book.shown()) == []
