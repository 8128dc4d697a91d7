"""A workload has moved when reuse or traffic has, and never because something is unknown."""

import math
from itertools import pairwise

import pytest

from kvtune_api.codec import dump, parse
from kvtune_api.status import Workload
from kvtune_api.wire import ReuseAges
from kvtune_tuner.workload import remembered, workload_of, workload_shifted
from tests.tuner.proposal_cases import exponential_ages, report


def _reuse(share: float = 0.8, mean_s: float = 150.0) -> Workload:
    return workload_of([report(reuse=exponential_ages(share=share, mean_s=mean_s, touches_per_s=100))])


def test_a_workload_is_the_shares_reused_within_powers_of_two() -> None:
    reused = _reuse().reused
    assert len(reused) == 9
    for i, share in enumerate(reused):
        assert share == pytest.approx(0.8 * -math.expm1(-(2.0**i) / 150), abs=1e-9)


def test_a_workload_survives_writing_and_reading() -> None:
    assert parse(Workload, dump(_reuse())) == _reuse()


def test_bins_that_straddle_an_age_count_in_proportion() -> None:
    ages = ReuseAges(
        touches=2000, prompt_blocks=2000, seconds=99, first_edge_seconds=3, counts=(0, 0, 0, 0, 900)
    )
    low, high = 3 * 2 ** (3 / 8), 3 * 2 ** (4 / 8)
    assert workload_of([report(reuse=ages)]).reused[2] == pytest.approx(900 / 2000 * (4 - low) / (high - low))


def test_little_traffic_describes_no_reuse() -> None:
    ages = ReuseAges(touches=999, prompt_blocks=999, seconds=10, counts=(5,))
    assert workload_of([report(reuse=ages)]).reused == ()
    assert workload_of([]) == Workload()


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (_reuse(), _reuse(), None),
        (_reuse(0.8), _reuse(0.7), None),
        (_reuse(0.8), _reuse(0.6), "reused within 256s went from 0.65 to 0.49"),
        (_reuse(mean_s=50), _reuse(mean_s=150), "share of touches reused within 64s went from 0.58 to 0.28"),
        (Workload(request_rate=5), Workload(request_rate=9.9), None),
        (Workload(request_rate=5), Workload(request_rate=10.1), "went from 5 to 10.1"),
        (Workload(request_rate=5), Workload(request_rate=0), "went from 5 to 0"),
        (Workload(request_rate=0), Workload(request_rate=0), None),
        (Workload(request_rate=5), Workload(), None),
        (Workload(), _reuse(), None),
    ],
)
def test_workload_shifted_table(then: Workload, now: Workload, said: str | None) -> None:
    found = workload_shifted(then, now)
    assert found is None if said is None else said in (found or "")


def _counted_from_empty(seconds: float) -> ReuseAges:
    """Count exponential ages without any memory at the start: a touch at t shows ages up to t only."""
    share, mean_s, rate = 0.8, 150.0, 100.0

    def below(age_s: float) -> float:
        seen = min(age_s, seconds)
        young = seen - mean_s * -math.expm1(-seen / mean_s)
        return rate * share * (young + (seconds - seen) * -math.expm1(-seen / mean_s))

    edges = [0.0, *(2.0 ** (i / 8) for i in range(97))]
    counts = tuple(below(b) - below(a) for a, b in pairwise(edges))
    touches = rate * seconds
    return ReuseAges(touches=touches, prompt_blocks=touches, seconds=seconds, counts=counts)


@pytest.mark.parametrize("seconds", [11, 60, 200, 600, 1200])
def test_a_young_pool_that_grows_old_has_not_moved(seconds: float) -> None:
    young = workload_of([report(reuse=_counted_from_empty(seconds))])
    old = workload_of([report(reuse=_counted_from_empty(3600))])
    assert len(young.reused) < len(old.reused)
    assert workload_shifted(young, old) is None
    assert workload_shifted(old, young) is None
    apart = [abs(a - b) for a, b in zip(young.reused, old.reused, strict=False)]
    assert max(apart, default=0.0) < 0.05


def test_what_says_more_is_remembered_and_else_what_was_first() -> None:
    young = workload_of([report(reuse=_counted_from_empty(200))])
    old = workload_of([report(reuse=_counted_from_empty(3600))])
    assert remembered(young, old) == old
    assert remembered(old, young) == old
    assert remembered(Workload(), Workload(request_rate=5)) == Workload(request_rate=5)
    assert remembered(Workload(request_rate=4), Workload(request_rate=5)) == Workload(request_rate=4)
