"""The scaled clock."""

import pytest

from kvtune_lab.clock import ScaledClock


def test_virtual_time_runs_from_the_origin_at_the_speed() -> None:
    clock = ScaledClock(origin_unix_s=1000.0, speed=60.0, wall=lambda: 1002.0)
    assert clock.now_s() == 1120.0
    assert clock.wall_seconds_until(1180.0) == 1.0
    assert clock.wall_seconds_until(1000.0) == 0.0


def test_before_the_origin_virtual_time_is_scaled_too() -> None:
    assert ScaledClock(origin_unix_s=1000.0, speed=60.0, wall=lambda: 999.0).now_s() == 940.0


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clock_that_does_not_run_forward_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=r"speed: .* is not a finite number above 0"):
        ScaledClock(origin_unix_s=0.0, speed=speed)
