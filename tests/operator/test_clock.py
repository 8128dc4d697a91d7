"""The scaled clock agrees with unix time at its origin and runs `speed` times as fast."""

import asyncio
from datetime import UTC

from kvtune_operator.clock import WallClock


def test_an_unscaled_clock_shows_unix_time() -> None:
    clock = WallClock()

    assert abs(clock.now().timestamp() - clock.unix_milliseconds() / 1000) < 5
    assert clock.now().tzinfo is UTC


def test_a_scaled_clock_runs_faster_from_its_origin() -> None:
    origin = WallClock().unix_milliseconds() / 1000 - 100

    ahead = WallClock(origin=origin, speed=60).now().timestamp() - origin

    assert 6000 <= ahead < 6000 + 60 * 60


async def test_sleeping_is_scaled_and_lets_others_run() -> None:
    clock, ran = WallClock(speed=1e6), asyncio.Event()
    asyncio.get_running_loop().call_soon(ran.set)

    await clock.sleep(-1.0)
    await clock.sleep(10.0)

    assert ran.is_set()
    assert clock.monotonic() > 0
