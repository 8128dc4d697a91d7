"""One task per policy: started, woken, ended; a bug in one never stops the others."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable

import pytest

from kvtune_operator.house import Key
from kvtune_operator.policy_tasks import Hooks, Mark, PolicyTasks
from kvtune_operator.reconcile import RunEnd
from kvtune_operator.task_clock import TaskClock, first_delay_seconds, offset_seconds
from tests.fakes.clock import FakeClock

A, B = ("chat", "a"), ("chat", "b")
FIRST = Mark(uid="1", generation=1)


class World:
    """Runs that a test steers: how often each policy was stepped, and how it is to end."""

    def __init__(self) -> None:
        self.steps: dict[Key, int] = {}
        self.ends: dict[Key, RunEnd | Exception] = {}
        self.crashes: list[tuple[Key, str]] = []
        self.gone: list[Key] = []
        self.pauses: list[float] = []
        self.tasks = PolicyTasks(self.run, self.sleep, Hooks(crashed=self.crashed, ended=self.gone.append))

    async def run(self, key: Key, waker: asyncio.Event) -> RunEnd:
        while True:
            self.steps[key] = self.steps.get(key, 0) + 1
            end = self.ends.get(key)
            if isinstance(end, Exception):
                raise end
            if end is not None:
                return end
            await waker.wait()
            waker.clear()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def crashed(self, key: Key, error: Exception) -> None:
        self.crashes.append((key, str(error)))


async def settled() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_policy_that_is_seen_is_stepped_and_seen_again_is_left_alone(world: World) -> None:
    world.tasks.seen(A, FIRST)
    await settled()
    world.tasks.seen(A, FIRST)
    await settled()

    assert world.steps == {A: 1}
    assert world.tasks.keys == (A,)
    await world.tasks.cancel()


@pytest.mark.parametrize(
    "changed",
    [
        Mark(uid="1", generation=2),
        Mark(uid="1", generation=1, deleted=True),
        Mark(uid="1", generation=1, wishes=(("kvtune.dev/abort", "a-00001"),)),
    ],
)
async def test_a_change_of_anything_but_the_status_wakes_it(world: World, changed: Mark) -> None:
    world.tasks.seen(A, FIRST)
    await settled()
    world.tasks.seen(A, changed)
    await settled()

    assert world.steps == {A: 2}
    await world.tasks.cancel()


async def test_a_policy_that_is_gone_ends_its_task(world: World) -> None:
    world.tasks.seen(A, FIRST)
    world.tasks.seen(B, FIRST)
    await settled()
    world.ends[A] = RunEnd.REMOVED
    world.tasks.gone(A)
    await settled()

    assert world.tasks.keys == (B,)
    assert world.gone == [A]
    await world.tasks.cancel()


async def test_a_policy_made_anew_while_its_old_task_ends_is_started(world: World) -> None:
    ending, steps = asyncio.Event(), list[str]()

    async def run(key: Key, waker: asyncio.Event) -> RunEnd:
        steps.append("begun")
        await ending.wait()
        if len(steps) == 1:
            return RunEnd.REMOVED
        await asyncio.Event().wait()
        return RunEnd.STOPPED

    world.tasks.run = run
    world.tasks.seen(A, FIRST)
    await settled()
    world.tasks.seen(A, Mark(uid="2", generation=1))
    ending.set()
    await settled()

    assert steps == ["begun", "begun"]
    assert world.gone == [A]
    assert world.tasks.keys == (A,)
    await world.tasks.cancel()
    assert not world.tasks.keys


async def test_a_list_finds_what_events_missed(world: World) -> None:
    world.tasks.seen(A, FIRST)
    await settled()
    world.ends[A] = RunEnd.REMOVED
    world.tasks.listed({B: FIRST})
    await settled()

    assert world.tasks.keys == (B,)
    await world.tasks.cancel()


async def test_a_policy_that_waits_for_other_finalizers_is_not_stepped_at_every_list(world: World) -> None:
    world.ends[A] = RunEnd.REMOVED
    leaving = Mark(uid="1", generation=2, deleted=True)
    for _ in range(3):
        world.tasks.listed({A: leaving})
        await settled()
    assert world.steps == {A: 1}

    world.tasks.listed({})
    world.tasks.listed({A: Mark(uid="2", generation=1)})
    await settled()
    assert world.steps == {A: 2}


async def test_a_bug_in_one_policy_is_told_and_tried_again_while_others_live(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ends[A] = ZeroDivisionError("division by zero")
    with caplog.at_level(logging.ERROR):
        world.tasks.seen(A, FIRST)
        world.tasks.seen(B, FIRST)
        await settled()
    del world.ends[A]
    await settled()

    assert world.crashes[0] == (A, "division by zero")
    assert world.pauses[:3] == [1.0, 2.0, 5.0]
    assert world.tasks.keys == (A, B)
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError
    await world.tasks.cancel()


async def test_the_end_of_all_does_not_wait_for_a_back_off(world: World) -> None:
    forever = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await forever.wait()

    world.tasks.sleep = sleep
    world.ends[A] = ZeroDivisionError("division by zero")
    world.tasks.seen(A, FIRST)
    await settled()
    await world.tasks.finish()

    assert world.steps == {A: 1}
    assert world.tasks.keys == ()


async def test_being_fenced_is_told_to_the_process(world: World) -> None:
    world.ends[A] = RunEnd.FENCED
    world.tasks.seen(A, FIRST)
    await settled()

    assert world.tasks.fenced.is_set()


async def test_finishing_waits_for_every_task_and_starts_no_more(world: World) -> None:
    world.tasks.seen(A, FIRST)
    world.tasks.seen(B, FIRST)
    await settled()
    world.ends = {A: RunEnd.STOPPED, B: RunEnd.UNCONFIRMED}
    await world.tasks.finish()
    world.tasks.seen(A, Mark(uid="1", generation=9))

    assert world.tasks.keys == ()
    assert world.gone == []


def clock_of(clock: FakeClock, waker: asyncio.Event, **more: Callable[[], bool]) -> TaskClock:
    return TaskClock(clock, waker, offset=2.0, tick_seconds=5.0, **more)


async def test_a_task_ticks_at_its_own_moment_of_the_interval() -> None:
    clock = FakeClock()
    own = clock_of(clock, asyncio.Event())
    began = own.now().timestamp()
    moments = []
    for _ in range(3):
        await own.sleep(1.0)
        moments.append(clock.seconds - began)

    assert moments == [2.0, 7.0, 12.0]


async def test_a_waking_ends_the_sleep_early_and_counts_once() -> None:
    clock, waker = FakeClock(auto=False), asyncio.Event()
    own = clock_of(clock, waker)
    waker.set()
    await own.sleep(5.0)

    assert not waker.is_set()
    sleep: Awaitable[None] = own.sleep(5.0)
    task = asyncio.ensure_future(sleep)
    await settled()
    assert not task.done()
    clock.advance(2.0)
    await task


async def test_a_stopping_control_plane_steps_quickly() -> None:
    clock = FakeClock()
    own = clock_of(clock, asyncio.Event(), stopping=lambda: True)
    began = clock.seconds
    await own.sleep(5.0)

    assert clock.seconds - began == 1.0


def test_fifty_policies_tick_spread_over_the_interval() -> None:
    moments = sorted(offset_seconds(index, 5.0) for index in range(50))
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]

    assert max(gaps) < 3 * 5.0 / 50
    assert min(gaps) > 0.03


def test_the_first_steps_of_policies_that_start_together_lie_apart_and_within_a_tick() -> None:
    for count in (1, 2, 50, 500):
        moments = [first_delay_seconds(index, count, 5.0) for index in range(count)]
        assert moments[0] == 0.0
        assert len(set(moments)) == count
        assert moments[-1] < 5.0
        assert moments[-1] <= 0.1 * count
