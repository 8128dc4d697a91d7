"""Which moments the shell reads: just those that a decision needs, and always on the grid."""

from dataclasses import replace

import pytest

from kvtune_api.names import Phase
from kvtune_api.wire import Counters
from kvtune_tuner.needs import exact, exposed_since, half, newest_moment, recent
from kvtune_tuner.sli import Missing, MissingReason
from tests.tuner.loop import BEGIN, experimenting, loop
from tests.tuner.specs import gaining, spec

GONE = Missing(reason=MissingReason.UNREACHABLE, message="connection refused")


def _at(seconds: float) -> Counters:
    return Counters(at=seconds, started_at=0.0)


def _moment(*at: float, now: float = 1001.0) -> float | None:
    return newest_moment({f"agent {j}": _at(s) for j, s in enumerate(at)}, now_s=now, tick_s=5.0)


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        ((1000, 1000, 1000, 1000, 1000, 1000), 1000),
        ((995, 1000, 1000, 1000, 1000, 1000), 995),  # with fresh samples: waited for
        ((1035, 1000, 1000, 1000, 1000, 1000), 1000),
        ((1010, 975, 975, 975, 975, 975), 975),  # ahead, but not of the control plane's clock
        ((400, 1000, 1000, 1000, 1000, 1000), 1000),
        ((960, 960, 960, 1000, 1000, 1000), 1000),
        ((960, 960, 960, 960, 1000, 1000), 960),
        ((9e11, 1000, 1000, 1000, 1000, 1000), 1000),  # near the wire's limit
        ((9e11, 995), 995),
        ((9e11, 1035), None),
        ((), None),
    ],
)
def test_the_newest_moment_is_one_that_half_of_the_agents_reached(
    at: tuple[float, ...], moment: float | None
) -> None:
    assert _moment(*at) == moment
    assert _moment(*reversed(at)) == moment


def test_agents_without_a_sample_have_no_say_in_the_newest_moment() -> None:
    assert newest_moment({"a": _at(100.0), "b": _at(95.0), "c": GONE}, now_s=101.0, tick_s=5.0) == 95.0
    assert newest_moment({"a": GONE}, now_s=101.0, tick_s=5.0) is None


def test_bounds_are_read_when_they_are_due_and_not_before() -> None:
    run = experimenting(Phase.MEASURING)
    epoch = run.experiment.status.epoch
    assert epoch is not None
    assert exact(run.experiment, epoch.measure_to - 1) == ()
    middle = half(epoch.measure_from, epoch.measure_to)
    assert exact(run.experiment, epoch.measure_to) == (epoch.measure_from, middle, epoch.measure_to)


def test_the_watch_reads_the_windows_that_are_over_and_not_yet_in() -> None:
    run = experimenting(Phase.WATCHING)
    watch = run.experiment.status.watch
    assert watch is not None
    first, second = watch.windows
    assert exact(run.experiment, first[1] - 1) == ()
    assert exact(run.experiment, first[1]) == first
    done = replace(watch, differences=(0.01,))
    later = replace(run.experiment, status=replace(run.experiment.status, watch=done))
    assert exact(later, second[1]) == second


def test_nothing_is_due_of_an_experiment_that_has_ended() -> None:
    run = loop(gaining(-0.06))
    run.until_ended()
    assert exact(run.experiment, run.now + 1e6) == ()
    assert exact(None, run.now) == ()


@pytest.mark.parametrize(
    ("start", "end", "middle"), [(0, 120, 60), (0, 125, 60), (0, 130, 65), (5, 10, 5), (0, 60, 30)]
)
def test_the_middle_of_a_window_lies_on_the_grid(start: float, end: float, middle: float) -> None:
    assert half(start, end) == middle


def test_the_breakers_moments_are_wanted_while_somebody_is_exposed() -> None:
    run = experimenting(Phase.WASHOUT)
    since = exposed_since(run.experiment)
    assert since is not None and since % 5 == 0
    wanted = recent(spec(), run.experiment, since + 65.0)
    assert since + 5.0 in wanted and since in wanted
    assert recent(spec(), None, BEGIN) == (BEGIN - 300.0, BEGIN - 60.0, BEGIN)
    assert exposed_since(None) is None


def test_nobody_is_exposed_in_the_run_in() -> None:
    assert exposed_since(experimenting(Phase.RUN_IN).experiment) is None


def test_a_washout_that_begins_again_does_not_hide_what_ran_before() -> None:
    run = experimenting(Phase.WASHOUT)
    before = exposed_since(run.experiment)
    epoch = run.experiment.status.epoch
    assert epoch is not None
    shifted = replace(epoch, switch_at=epoch.switch_at + 60)
    later = replace(run.experiment, status=replace(run.experiment.status, epoch=shifted))
    assert exposed_since(later) == before


def test_every_moment_that_is_read_lies_on_the_grid() -> None:
    run = loop(gaining())
    while not run.status.trials:
        run.step()
        assert run.last is not None
        assert all(moment % 5 == 0 for moment in run.last.samples)
