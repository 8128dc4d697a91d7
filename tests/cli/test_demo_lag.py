"""How far the demo's agents are behind, and what is said of it."""

from pathlib import Path

import pytest

from kvtune_cli.demo.lag import LOOKS, LagGauge, behind, lag
from kvtune_cli.demo.summary import as_json
from kvtune_operator.ports import Unreachable
from tests.cli.demo_runs import report, told


def test_the_lag_is_that_of_the_slowest_answering_agent() -> None:
    gone = Unreachable(message="gone")

    assert lag([report(990.0), report(700.0), report(None), gone], 1000.0) == 300.0
    assert lag([report(1010.0)], 1000.0) == 0.0
    assert lag([report(None), gone], 1000.0) is None


def test_a_lag_is_told_only_when_it_lasts() -> None:
    gauge = LagGauge()

    assert [gauge.look(seconds) for seconds in (130.0, 20.0, *[200.0] * LOOKS, None)] == [
        *[None] * (LOOKS + 1),
        200.0,
        None,
    ]
    assert gauge.largest == 200.0


def test_without_counters_there_is_no_largest_lag() -> None:
    gauge = LagGauge()
    gauge.look(None)

    assert gauge.largest is None
    assert as_json(told(), [], None, Path("state"))["largestLagScaledSeconds"] is None


@pytest.mark.parametrize(("speed", "other"), [(60.0, "--speed 20"), (20.0, "--speed 6"), (2.0, "--agents 2")])
def test_who_is_behind_is_told_what_to_try(speed: float, other: str) -> None:
    assert behind(500.0, speed) == (
        f"agents are 500 scaled seconds behind: this machine is too slow for {speed:g}x; "
        f"try make demo ARGS='{other}'"
    )
