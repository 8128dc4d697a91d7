"""What the replay engine tells of load and reuse, and what large batches and long silences cost others."""

import asyncio

import pytest

from kvtune_agent.engines.batches import SLICE_BLOCKS, QueueFull, ReplayBatch
from kvtune_agent.engines.replay import PENDING_MAX
from tests.agent.engines.replaying import T, new_engine, replayed
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import batch


def large_batch(requests: int, blocks: int = 64) -> ReplayBatch:
    step = 5.0 / requests
    return batch(
        T + 5, *((T + step * i, list(range(i * blocks, (i + 1) * blocks))) for i in range(1, requests))
    )


async def test_a_huge_batch_gives_turns_to_others_while_it_is_served() -> None:
    engine = new_engine(FakeClock())
    size = 20 * SLICE_BLOCKS // 64
    turns: list[int] = []

    async def other() -> None:
        while engine.pending:
            turns.append(engine.pending)
            await asyncio.sleep(0)

    serving = asyncio.create_task(replayed(engine, large_batch(size)))
    await asyncio.sleep(0)
    await other()

    assert len(turns) >= 19
    assert (await serving).served == size - 1


async def test_batches_are_served_one_after_the_other_and_a_full_queue_refuses() -> None:
    engine = new_engine(FakeClock())
    first = asyncio.create_task(replayed(engine, large_batch(3 * SLICE_BLOCKS // 64)))
    await asyncio.sleep(0)
    tiny = [(T + 6, 1, 128, 1, [1])]

    full = await engine.replay(ReplayBatch(until=T + 7, requests=tiny * PENDING_MAX))
    second = asyncio.create_task(replayed(engine, ReplayBatch(until=T + 7, requests=tiny)))

    assert isinstance(full, QueueFull)
    assert full.limit == PENDING_MAX
    assert (await second).watermark == T + 7
    assert first.done()


async def test_load_is_that_of_the_last_five_minutes() -> None:
    clock = FakeClock()
    engine = new_engine(clock)
    assert engine.load().request_rate is None
    arrivals = [(T + 1 + i, [i % 10]) for i in range(500)]

    await replayed(engine, batch(T + 600, *arrivals))

    load = engine.load()
    assert load.span_seconds == 300
    assert load.request_rate == pytest.approx(200 / 300)
    assert load.hit_rate == pytest.approx(1.0)


async def test_load_without_traffic_has_a_rate_of_zero_and_no_hit_rate() -> None:
    clock = FakeClock()
    engine = new_engine(clock)
    clock.advance(100)
    engine.follow()

    load = engine.load()

    assert (load.request_rate, load.hit_rate) == (0, None)


async def test_reuse_ages_are_those_of_the_last_hour() -> None:
    clock = FakeClock()
    engine = new_engine(clock)
    assert engine.reuse() is None
    await replayed(engine, batch(T + 10, (T + 1, [1, 2]), (T + 4.5, [1, 2])))
    young = engine.reuse()
    assert young is not None
    assert (young.touches, sum(young.counts)) == (4, 2)
    edge = young.first_edge_seconds * 2 ** (next(i for i, n in enumerate(young.counts) if n) / 8)
    assert 3.5 <= edge < 3.5 * 2 ** (1 / 8)

    clock.advance(2 * 3600)
    await replayed(engine, batch(T + 7000, (T + 6000, [7]), (T + 6900, [7])))

    old = engine.reuse()
    assert old is not None
    assert (old.touches, sum(old.counts)) == (2, 1)
    assert 3600 <= old.seconds <= 3900


async def test_a_long_silence_does_not_cost_a_row_for_every_step_of_it() -> None:
    clock = FakeClock(now=1e6)
    engine = new_engine(clock)
    await replayed(engine, batch(5.0, (1.0, [1])))
    clock.advance(3e8)

    engine.follow()

    newest = engine.newest()
    assert newest is not None
    assert newest.counters.at == 1e6 + 3e8 - 10
    assert newest.counters.requests == 1
