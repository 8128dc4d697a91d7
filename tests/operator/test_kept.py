"""Lists and watches that fail in every way: nothing is lost, nothing made up, nothing asked in a hurry."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kvtune_api.errors import KvtuneError, Unavailable
from kvtune_operator.adapters.kept import Kept, Patience, Timer
from kvtune_operator.adapters.kube_errors import Gone, NotAllowed, Overloaded
from kvtune_operator.adapters.pod_records import PodSeen, pod_of
from tests.fakes.nodes_and_pods import FakeLister, Hours, Watched, pod

PATH = "/api/v1/namespaces/x/pods"


class World:
    """One kept collection of pods over a scripted server."""

    def __init__(self) -> None:
        self.hours = Hours()
        self.server = FakeLister(self.hours)
        timer = Timer(monotonic=self.hours.monotonic, sleep=self.hours.sleep)
        patience = Patience(first_seconds=0.05)
        self.kept: Kept[PodSeen] = Kept(self.server, PATH, pod_of, timer, patience)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep until the script is over, and while this is open."""
        task = asyncio.create_task(self.kept.run())
        await self.server.idle.wait()
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def names(self) -> list[str]:
        """The pods that are kept."""
        return sorted(await self.kept.records())


@pytest.fixture
async def world() -> World:
    return World()


async def test_what_is_listed_and_then_changes_is_kept(world: World) -> None:
    world.server.lists.append([pod("a"), pod("b")])
    world.server.watches.append(
        Watched(
            changes=[
                ("ADDED", pod("c")),
                ("MODIFIED", pod("a", ip="127.0.0.9")),
                ("DELETED", pod("b")),
                ("BOOKMARK", {"metadata": {"resourceVersion": "77"}}),
            ]
        )
    )

    async with world.running():
        assert await world.names() == ["a", "c"]
        assert world.kept.record("a") == pod_of(pod("a", ip="127.0.0.9"))

    assert world.server.calls == ["list", "watch list-1", "watch 77"]


async def test_a_version_that_is_too_old_lists_anew_and_forgets_what_went_meanwhile(world: World) -> None:
    world.server.lists.extend([[pod("a"), pod("b")], [pod("b"), pod("c")]])
    world.server.watches.append(Watched(error=Gone("410")))

    async with world.running():
        assert await world.names() == ["b", "c"]

    assert world.server.calls == ["list", "watch list-1", "list", "watch list-2"]
    assert world.hours.slept == []


async def test_a_version_that_is_too_old_again_and_again_is_no_tight_loop(world: World) -> None:
    world.server.lists.extend([[pod("a")]] * 6)
    world.server.watches.extend([Watched(lasts=0.0, error=Gone("410"))] * 6)

    async with world.running():
        pass

    assert world.hours.slept == [2.0, 4.0, 8.0, 16.0, 30.0]


async def test_a_cut_watch_goes_on_where_it_was(world: World) -> None:
    world.server.lists.append([pod("a")])
    world.server.watches.append(Watched(changes=[("ADDED", pod("b"))], error=Unavailable("cut")))

    async with world.running():
        assert await world.names() == ["a", "b"]

    assert world.server.calls == ["list", "watch list-1", "watch list-1.0"]
    assert world.hours.slept == [1.0]


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (Unavailable("no answer"), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        (NotAllowed("may not list pods in namespace x"), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        (Overloaded("429", retry_after_seconds=7.0), [7.0, 7.0, 7.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        (Overloaded("429", retry_after_seconds=45.0), [45.0] * 8),
        (Overloaded("429", retry_after_seconds=None), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
    ],
)
async def test_a_server_that_fails_is_asked_ever_less_often(
    world: World, error: KvtuneError, pauses: list[float]
) -> None:
    world.server.lists.extend([error] * len(pauses))

    async with world.running():
        assert world.hours.slept == pauses
        assert world.server.calls == ["list"] * (len(pauses) + 1)


async def test_a_watch_that_ends_at_once_is_no_tight_loop(world: World) -> None:
    world.server.lists.extend([[pod("a")]] * 9)
    world.server.watches.extend([Watched(lasts=0.0)] * 8)

    async with world.running():
        assert await world.names() == ["a"]

    assert sum(world.hours.slept) > 60
    assert len(world.server.calls) < 20


async def test_after_a_success_pauses_begin_anew(world: World) -> None:
    world.server.lists.extend([Unavailable("x"), Unavailable("x"), [pod("a")]])
    world.server.watches.extend([Watched(), Watched(error=Unavailable("x"))])

    async with world.running():
        assert world.hours.slept == [1.0, 2.0, 1.0]


async def test_a_watch_that_fails_again_and_again_ends_in_a_list(world: World) -> None:
    world.server.lists.extend([[pod("a")], [pod("b")]])
    world.server.watches.extend([Watched(lasts=0.0, error=Unavailable("too large resource version"))] * 3)

    async with world.running():
        assert await world.names() == ["b"]

    assert world.server.calls == ["list", *["watch list-1"] * 3, "list", "watch list-2"]


async def test_everything_is_read_anew_by_age_whatever_the_watch_says(world: World) -> None:
    world.server.lists.extend([[pod("a"), pod("forgotten")], [pod("a")]])
    world.server.watches.extend([Watched(lasts=30.0)] * 21)

    async with world.running():
        assert await world.names() == ["a"]

    assert world.server.calls.count("list") == 2


async def test_a_quiet_watch_keeps_what_is_known_fresh(world: World) -> None:
    world.server.lists.append([pod("a")])
    world.server.watches.extend([Watched(lasts=30.0)] * 10)

    async with world.running():
        assert await world.names() == ["a"]
        assert world.kept.synced_at == world.hours.seconds


async def test_what_is_too_old_is_unknown_and_not_empty(world: World) -> None:
    world.server.lists.append([pod("a")])
    world.server.watches.extend([Watched(lasts=40.0, error=Unavailable("watch pods: no answer"))] * 2)

    async with world.running():
        assert await world.names() == ["a"], "83 s are not too old"
        world.hours.seconds += 20

        with pytest.raises(Unavailable, match=r"last heard of 103 s ago: watch pods: no answer"):
            await world.kept.records()
        assert world.kept.record("a") is not None


async def test_what_was_never_read_is_unknown(world: World) -> None:
    world.server.lists.append(Unavailable("list pods: connection refused"))

    async with world.running():
        with pytest.raises(Unavailable, match=r"not read yet \(list pods: connection refused\)"):
            await world.kept.records()


async def test_a_right_that_is_lacking_is_told_at_once_until_it_is_given(world: World) -> None:
    world.server.lists.append(NotAllowed("may not list pods in namespace x"))
    async with world.running():
        with pytest.raises(NotAllowed, match="may not list pods in namespace x"):
            await world.kept.records()

    world.server.lists.append([pod("a")])
    world.server.idle.clear()
    async with world.running():
        assert await world.names() == ["a"]
        assert world.kept.forbidden == ""


async def test_a_right_to_watch_that_is_lacking_shows_when_the_list_is_too_old(world: World) -> None:
    world.server.lists.append([pod("a")])
    world.server.watches.extend([Watched(lasts=0.0, error=NotAllowed("may not watch pods"))] * 30)

    async with world.running():
        with pytest.raises(NotAllowed, match=r"^may not watch pods$"):
            await world.kept.records()

    assert world.hours.seconds > 1000 + Patience().relist_seconds
    assert world.server.calls.count("list") == 1


async def test_a_right_to_watch_that_is_given_again_works_at_once(world: World) -> None:
    world.server.lists.append([pod("a")])
    world.server.watches.extend([Watched(lasts=0.0, error=NotAllowed("may not watch pods"))] * 9)
    world.server.watches.append(Watched(changes=[("ADDED", pod("b"))]))

    async with world.running():
        assert await world.names() == ["a", "b"]
        assert world.kept.forbidden == ""


async def test_an_answer_that_is_no_pod_is_a_failure_and_not_the_end(world: World) -> None:
    world.server.lists.extend([[{"metadata": {}}], [pod("a")]])
    world.server.watches.append(Watched(changes=[("ADDED", {"metadata": {"uid": "x"}})]))

    async with world.running():
        assert await world.names() == ["a"]
        assert "unexpected answer" in world.kept.trouble
