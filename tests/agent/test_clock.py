"""The scaled clock."""

import pytest

from kvtune_agent.clock import WallClock


def test_at_speed_one_the_engine_s_clock_is_the_wall_s() -> None:
    early, late = WallClock().now(), WallClock(origin=1e9, speed=1.0).now()

    assert early <= late + 1e-3


def test_a_scaled_clock_runs_from_its_origin() -> None:
    plain, scaled = WallClock(), WallClock(origin=1_000_000.0, speed=60.0)

    before, now, after = plain.now(), scaled.now(), plain.now()

    assert before <= 1_000_000.0 + (now - 1_000_000.0) / 60.0 + 1e-3
    assert 1_000_000.0 + (now - 1_000_000.0) / 60.0 <= after + 1e-3


async def test_monotonic_time_does_not_go_back_and_sleep_returns() -> None:
    clock = WallClock(speed=60.0)
    before = clock.monotonic()

    await clock.sleep(0)

    assert clock.monotonic() >= before
    assert clock.speed == pytest.approx(60.0)
