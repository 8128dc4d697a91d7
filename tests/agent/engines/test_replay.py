"""The replay engine: grid, watermark, repeats, pushes and bad batches."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_agent.engine import Missed, Snapshot
from kvtune_agent.engines.batches import ReplayBatch, Replayed
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_api.errors import SpecError
from kvtune_api.knobs import CacheConfig
from kvtune_cache.constants import H100_LLAMA8B
from tests.agent.engines.replaying import T, new_engine, replayed, requests_at
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import batch, cache_config


async def test_counters_advance_by_each_request_s_own_arrival() -> None:
    engine = new_engine(FakeClock())

    done = await replayed(engine, batch(T + 12, (T + 1, [1]), (T + 5, [2]), (T + 5.1, [3]), (T + 12, [4])))

    assert done == Replayed(served=4, repeated=0, late=0, errors=0, watermark=T + 12)
    assert [requests_at(engine, T + at) for at in (0, 5, 10, 15)] == [0, 2, 3, Missed.NOT_YET]


async def test_a_watermark_on_the_grid_closes_that_grid_time() -> None:
    engine = new_engine(FakeClock())

    await replayed(engine, batch(T + 10, (T + 1, [1]), (T + 10, [2])))

    assert requests_at(engine, T + 10) == 2
    newest = engine.newest()
    assert newest is not None
    assert newest.counters.at == T + 10


async def test_hits_tokens_and_times_are_counted() -> None:
    engine = new_engine(FakeClock())

    await replayed(engine, batch(T + 5, (T + 1, [1, 2]), (T + 2, [1, 2, 3])))

    newest = engine.newest()
    assert newest is not None
    counters = newest.counters
    assert (counters.requests, counters.prompt_tokens, counters.hit_tokens) == (2, 5 * 128, 2 * 128)
    assert counters.bytes_down == 3 * H100_LLAMA8B.block_bytes
    assert counters.new_session_roots == 1
    assert counters.ttft is not None
    assert counters.ttft.counts[-1] == 2
    assert newest.queue_seconds is not None
    assert newest.queue_seconds.counts[-1] == 2
    assert (newest.device_hit_tokens, newest.lower_hit_tokens) == (256, 0)


async def test_a_batch_repeated_after_a_lost_answer_is_ignored() -> None:
    engine = new_engine(FakeClock())
    one = batch(T + 10, (T + 1, [1]), (T + 2, [2]))
    await replayed(engine, one)

    again = await replayed(engine, one)

    assert again == Replayed(served=0, repeated=2, late=0, errors=0, watermark=T + 10)
    assert requests_at(engine, T + 10) == 2


async def test_batches_that_share_a_span_add_up() -> None:
    engine = new_engine(FakeClock())

    await replayed(engine, batch(T + 3, (T + 1, [1]), (T + 3, [2])))
    await replayed(engine, batch(T + 5, (T + 3.5, [3])))

    assert requests_at(engine, T + 5) == 3


async def test_a_prefill_may_lie_in_the_clock_s_past() -> None:
    clock = FakeClock(speed=60)
    engine = new_engine(clock)
    clock.advance(15)
    engine.follow()

    done = await replayed(engine, batch(T, (T - 1200, [1]), (T - 1, [1])))

    assert (done.served, done.late) == (2, 0)
    assert requests_at(engine, T - 1200) == 1
    assert requests_at(engine, T) == 2


async def test_counters_that_begin_anew_for_a_prefill_say_so() -> None:
    clock = FakeClock(speed=60)
    engine = new_engine(clock)
    started = engine.started_at
    clock.advance(15)
    engine.follow()
    assert requests_at(engine, T + 300) == 0

    await replayed(engine, batch(T, (T - 1200, [1])))

    assert engine.started_at > started
    assert requests_at(engine, T + 300) is Missed.NOT_YET


async def test_without_batches_the_watermark_follows_the_clock_ten_wall_seconds_behind() -> None:
    clock = FakeClock(speed=60)
    engine = new_engine(clock)
    await replayed(engine, batch(T, (T - 100, [1])))

    clock.advance(9.9)
    engine.follow()
    assert requests_at(engine, T + 5) is Missed.NOT_YET
    clock.advance(2.1)
    engine.follow()

    assert requests_at(engine, T + 120) == 1, "no traffic is no increase"
    assert requests_at(engine, T + 125) is Missed.NOT_YET


async def test_requests_for_a_time_that_was_closed_meanwhile_are_late_and_change_nothing() -> None:
    clock = FakeClock(speed=60)
    engine = new_engine(clock)
    await replayed(engine, batch(T, (T - 100, [1])))
    clock.advance(12)
    engine.follow()

    done = await replayed(engine, batch(T + 130, (T + 50, [2]), (T + 125, [3])))

    assert (done.served, done.repeated, done.late) == (1, 0, 1)
    assert requests_at(engine, T + 50) == 1
    assert requests_at(engine, T + 130) == 2


async def test_times_before_the_first_request_or_long_ago_are_missed() -> None:
    engine = new_engine(FakeClock(), keep_seconds=600.0)
    await replayed(engine, batch(T + 1000, (T + 1, [1]), (T + 999, [2])))

    assert requests_at(engine, T + 395) is Missed.BOUND_MISSED
    assert requests_at(engine, T + 400) == 1
    assert requests_at(engine, T - 5) is Missed.BOUND_MISSED


async def test_before_any_request_a_time_is_not_yet_closed_unless_it_is_too_old() -> None:
    engine = new_engine(FakeClock())

    assert requests_at(engine, T) is Missed.NOT_YET
    assert requests_at(engine, T - 4205) is Missed.BOUND_MISSED
    assert engine.newest() is None


async def test_a_request_with_fewer_tokens_than_its_blocks_hold_is_an_error_and_not_a_crash() -> None:
    engine = new_engine(FakeClock())

    done = await replayed(
        engine, ReplayBatch(until=T + 5, requests=[(T + 1, 1, 128, 1, [1, 2, 3]), (T + 2, 1, 128, 1, [1])])
    )

    assert (done.served, done.errors) == (1, 1)
    newest = engine.newest()
    assert newest is not None
    assert newest.counters.errors == 1


BAD_BATCHES: dict[str, tuple[ReplayBatch, str]] = {
    "out of order": (batch(T + 5, (T + 2, [1]), (T + 1, [2])), r"requests\[1\]\[0\]"),
    "ends before its last request": (batch(T + 5, (T + 6, [1])), "until"),
    "too far ahead of the clock": (batch(T + 3661, (T + 1, [1])), "too far ahead of the engine's clock"),
}


@pytest.mark.parametrize(("bad", "words"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
async def test_a_bad_batch_is_refused_whole(bad: ReplayBatch, words: str) -> None:
    engine = new_engine(FakeClock())

    with pytest.raises(SpecError, match=words):
        await engine.replay(bad)

    assert engine.newest() is None
    assert engine.pending == 0


async def test_a_push_acts_at_the_watermark_whatever_the_clock_says() -> None:
    clock = FakeClock(speed=60)
    engine = new_engine(clock)
    await replayed(engine, batch(T, (T - 20, [1, 2])))
    clock.advance(5)

    engine.apply(cache_config(ttl="1s"))
    done = await replayed(engine, batch(T + 30, (T + 10, [3])))

    assert done.served == 1
    assert engine.settings.ttl_seconds == 1
    newest = engine.newest()
    assert newest is not None
    assert newest.evicted_blocks == {"ttl": 3, "pressure": 0, "resize": 0}


def test_a_knob_that_a_push_leaves_out_goes_back_to_the_start_s_value() -> None:
    engine = new_engine(FakeClock())
    engine.apply(cache_config(ttl="300s", ratio=0.1))

    engine.apply(CacheConfig(eviction_ratio=0.2))

    assert (engine.settings.ttl_seconds, engine.settings.eviction_ratio) == (30, 0.2)


def test_host_memory_of_less_than_a_block_is_refused_with_both_numbers() -> None:
    engine = new_engine(FakeClock())

    with pytest.raises(
        SpecError, match=r"tiers.hostMemory: 1048576 bytes is less than one block of 16777216"
    ):
        engine.check(cache_config(host="1Mi"))


def test_a_start_without_every_knob_is_refused_naming_each_one_that_is_missing() -> None:
    with pytest.raises(SpecError) as caught:
        new_engine(FakeClock(), config=CacheConfig(eviction_ratio=0.2))

    assert [problem.path for problem in caught.value.problems] == [
        "config.cacheTTL",
        "config.tiers.hostMemory",
    ]


@given(
    st.lists(st.floats(min_value=0, max_value=60), max_size=40),
    st.lists(st.floats(min_value=0, max_value=60), max_size=4),
)
def test_law_counters_do_not_depend_on_how_requests_are_cut_into_batches(
    arrivals: list[float], cuts: list[float]
) -> None:
    whole = sorted({round(T + a, 3) for a in arrivals})
    bounds = sorted({round(T + c, 3) for c in cuts} | {T + 60})

    async def served(ends: list[float]) -> ReplayEngine:
        engine = new_engine(FakeClock())
        done = T - 1
        for end in ends:
            await replayed(engine, batch(end, *((a, [int(a) % 7, 99]) for a in whole if done < a <= end)))
            done = end
        return engine

    async def both() -> tuple[ReplayEngine, ReplayEngine]:
        return await served([T + 60]), await served(bounds)

    once, cut = asyncio.run(both())
    for at in range(int(T), int(T) + 65, 5):
        first, second = once.at(at), cut.at(at)
        if isinstance(first, Snapshot) and isinstance(second, Snapshot):
            assert first.counters.requests == second.counters.requests
            assert first.counters.hit_tokens == second.counters.hit_tokens
            assert first.counters.ttft == second.counters.ttft


@given(st.lists(st.floats(min_value=0, max_value=300), min_size=1, max_size=40))
def test_law_counters_never_fall(arrivals: list[float]) -> None:
    engine = new_engine(FakeClock())
    asyncio.run(replayed(engine, batch(T + 300, *((T + a, [int(a) % 5]) for a in sorted(arrivals)))))

    before = 0.0
    for at in range(int(T), int(T) + 301, 5):
        found = engine.at(at)
        if isinstance(found, Snapshot):
            assert found.counters.requests is not None
            assert found.counters.requests >= before
            before = found.counters.requests
    assert before == len(arrivals)
