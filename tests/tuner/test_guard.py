"""The guard chain: real disasters trip at once, noise and missing data never do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.guard import (
    CHECKS,
    ArmAgent,
    GuardInput,
    PairWindows,
    Restarts,
    Target,
    breaker_spans,
    first_violation,
    incumbent_violates,
)
from kvtune_tuner.limits import BreakerLimits
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

LE = (0.1, 0.25, 0.5, math.inf)
TARGET = Target(limit_s=0.25, quantile=0.9)
LOST = Missing(reason=MissingReason.NO_DATA, message="no sample")
LIMITS = BreakerLimits()


def slow(share: float, requests: float = 300.0, errors: float = 0.0, seconds: float = 300.0) -> WindowCounts:
    """Return a window in which this share of the requests is over 0.25 s."""
    within = requests * (1.0 - share)
    return WindowCounts(
        seconds=seconds,
        requests=requests,
        errors=errors,
        ttft_le=LE,
        ttft_counts=(within / 2, within, requests, requests),
    )


def pairs(*shares: tuple[float, float]) -> tuple[PairWindows, ...]:
    return tuple(
        PairWindows(pair=f"pair {j}", candidate=slow(candidate), control=slow(control))
        for j, (candidate, control) in enumerate(shares)
    )


def seen(
    long: tuple[PairWindows, ...],
    short: tuple[PairWindows, ...] | None = None,
    target: Target | None = TARGET,
) -> GuardInput:
    agents = tuple(ArmAgent(name=f"agent {j}") for j in range(6))
    return GuardInput(
        candidates=agents[:3],
        controls=agents[3:],
        long=long,
        short=long if short is None else short,
        target=target,
    )


BAD = pairs((0.5, 0.05), (0.5, 0.05), (0.5, 0.05))
GOOD = pairs((0.05, 0.05), (0.05, 0.05), (0.05, 0.05))


def test_a_candidate_far_over_the_limit_everywhere_trips_with_its_numbers() -> None:
    found = first_violation(seen(BAD))
    assert found is not None
    assert (found.check, found.reason) == ("breaker", "CandidateTooSlow")
    for figure in ("50.0%", "0.25 s", "300 s", "20.0%", "5.0%", "15%", "45.0%", "10%"):
        assert figure in found.message


HOLDS: dict[str, GuardInput] = {
    "nobody is slow": seen(GOOD),
    "only the short window is bad": seen(GOOD, BAD),
    "only the long window is bad": seen(BAD, GOOD),
    "twice the budget is not passed": seen(pairs(*[(0.2, 0.0)] * 3)),
    "15 points above control are not passed": seen(pairs(*[(0.22, 0.08)] * 3)),
    "one pair does not agree": seen(pairs((0.6, 0.05), (0.6, 0.05), (0.13, 0.05))),
    "control violates too and 30 points are not passed": seen(pairs(*[(0.6, 0.35)] * 3)),
    "too few requests": seen(
        tuple(
            replace(pair, candidate=slow(0.9, requests=16.0), control=slow(0.0, requests=400.0))
            for pair in BAD
        )
    ),
    "no span yet": seen(()),
    "no target": seen(BAD, target=None),
    "all pairs missing": seen(tuple(replace(pair, candidate=LOST) for pair in BAD)),
    "most pairs missing": seen((BAD[0], *(replace(pair, control=LOST) for pair in BAD[1:]))),
    "no histogram": seen(
        tuple(replace(pair, candidate=WindowCounts(seconds=300.0, requests=300.0)) for pair in BAD)
    ),
    "no traffic": seen(tuple(replace(pair, candidate=slow(0.0, requests=0.0)) for pair in BAD)),
    "limit above the top bucket": seen(BAD, target=Target(limit_s=2.0, quantile=0.9)),
}


@pytest.mark.parametrize("name", HOLDS)
def test_the_breaker_does_not_trip_when(name: str) -> None:
    assert first_violation(HOLDS[name]) is None


def test_a_poor_start_must_be_improvable_but_not_be_made_far_worse() -> None:
    found = first_violation(seen(pairs(*[(0.8, 0.45)] * 3)))
    assert found is not None
    assert "limit 30% above it" in found.message


def test_one_missing_pair_of_three_does_not_hide_a_disaster() -> None:
    assert first_violation(seen((*BAD[:2], replace(BAD[2], control=LOST)))) is not None


def test_between_boundaries_only_requests_that_are_surely_over_the_limit_count() -> None:
    # At 0.3 s the upper boundary is 0.5 s, within which all requests are: nothing is surely over the limit.
    assert first_violation(seen(BAD, target=Target(limit_s=0.3, quantile=0.9))) is None


def test_the_spans_begin_at_the_candidates_start_and_not_before_60_seconds() -> None:
    assert breaker_spans(159.0, 100.0, LIMITS) is None
    young = breaker_spans(160.0, 100.0, LIMITS)
    assert young is not None
    assert (young.long_from_s, young.short_from_s, young.to_s) == (100.0, 100.0, 160.0)
    old = breaker_spans(1000.0, 100.0, LIMITS)
    assert old is not None
    assert (old.long_from_s, old.short_from_s, old.to_s) == (700.0, 940.0, 1000.0)


def with_agents(candidate_s: float, control_s: tuple[float, ...]) -> GuardInput:
    return GuardInput(
        candidates=(ArmAgent(name="a", unreachable_s=candidate_s), ArmAgent(name="b")),
        controls=tuple(ArmAgent(name=f"c{j}", unreachable_s=gone) for j, gone in enumerate(control_s)),
    )


def test_an_unreachable_candidate_trips_alone() -> None:
    found = first_violation(with_agents(15.0, (0.0, 0.0)))
    assert found is not None
    assert (found.check, found.reason) == ("unreachable", "CandidateUnreachable")
    assert "a for 15 s, limit 15 s" in found.message


def test_a_short_silence_does_not_trip() -> None:
    assert first_violation(with_agents(10.0, (0.0, 0.0))) is None


def test_case_03_nobody_answering_is_no_reason_to_roll_back() -> None:
    assert first_violation(with_agents(600.0, (600.0, 600.0))) is None


def test_case_12_a_missing_baseline_with_a_good_candidate_holds() -> None:
    assert first_violation(with_agents(0.0, (600.0, 600.0))) is None
    assert first_violation(seen(tuple(replace(pair, control=LOST) for pair in BAD))) is None


def test_failing_requests_trip_alone() -> None:
    failing = tuple(replace(pair, candidate=slow(0.05, errors=30.0)) for pair in GOOD)
    found = first_violation(seen(failing))
    assert found is not None
    assert (found.check, found.reason) == ("errors", "CandidateErrors")
    assert "10.0%" in found.message


@pytest.mark.parametrize(
    ("candidate", "control"),
    [
        (slow(0.05, errors=1.0), slow(0.05)),  # three errors in all
        (slow(0.05, errors=30.0), slow(0.05, errors=30.0)),  # both arms fail alike
        (replace(slow(0.05), errors=None), slow(0.05)),  # not counted
        (slow(0.05, requests=0.0), slow(0.05)),
    ],
)
def test_errors_do_not_trip_when_they_say_nothing_about_the_candidate(
    candidate: WindowCounts, control: WindowCounts
) -> None:
    assert (
        first_violation(seen(tuple(replace(pair, candidate=candidate, control=control) for pair in GOOD)))
        is None
    )


def test_errors_of_an_engine_that_counts_only_finished_requests_trip_too() -> None:
    dead = tuple(replace(pair, candidate=slow(0.0, requests=0.0, errors=50.0)) for pair in GOOD)
    found = first_violation(seen(dead))
    assert found is not None
    assert "100.0%" in found.message


def test_the_first_violation_in_the_chain_wins() -> None:
    assert [name for name, _ in CHECKS] == ["unreachable", "restarts", "errors", "breaker"]
    everything = replace(
        seen(tuple(replace(pair, candidate=slow(0.9, errors=60.0)) for pair in BAD)),
        candidates=(ArmAgent(name="a", unreachable_s=60.0),),
    )
    found = first_violation(everything)
    assert found is not None
    assert found.check == "unreachable"


def test_an_incumbent_over_its_target_is_reported() -> None:
    message = incumbent_violates(seen(pairs(*[(0.3, 0.45)] * 3)))
    assert message is not None
    assert "45.0%" in message
    assert "10.0%" in message
    for held in (seen(GOOD), seen((), ()), seen(BAD, target=None)):
        assert incumbent_violates(held) is None


shares = st.floats(min_value=0.0, max_value=1.0)


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=5), st.floats(min_value=0.0, max_value=1.0))
def test_a_candidate_that_gets_worse_never_stops_a_trip(data: list[tuple[float, float]], more: float) -> None:
    if first_violation(seen(pairs(*data))) is not None:
        worse = [(min(candidate + more, 1.0), control) for candidate, control in data]
        assert first_violation(seen(pairs(*worse))) is not None


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=5))
def test_a_candidate_no_worse_than_control_never_trips(data: list[tuple[float, float]]) -> None:
    better = [(min(candidate, control), control) for candidate, control in data]
    assert first_violation(seen(pairs(*better))) is None


RESTARTS: dict[str, tuple[Restarts, bool]] = {
    "three against none": (Restarts(candidate=3, control=0, repeated=1), True),
    "five against one, within the noise": (Restarts(candidate=5, control=1, repeated=1), False),
    "six against one": (Restarts(candidate=6, control=1, repeated=3), True),
    "two against none": (Restarts(candidate=2, control=0, repeated=1), False),
    "both arms alike": (Restarts(candidate=9, control=9, repeated=12), False),
    "a few more of many": (Restarts(candidate=22, control=18, repeated=20), False),
    "a rolling upgrade that takes one arm first": (Restarts(candidate=9, control=0), False),
    "only control": (Restarts(candidate=0, control=9, repeated=0), False),
}


@pytest.mark.parametrize("name", RESTARTS)
def test_restarts_trip_only_when_they_are_the_candidates_own(name: str) -> None:
    restarts, trips = RESTARTS[name]
    found = first_violation(replace(seen(GOOD), restarts=restarts))
    assert (found is not None) is trips
    if found is not None:
        assert (found.check, found.reason) == ("restarts", "CandidateRestarts")
        assert f"{restarts.candidate} times in the candidate arm" in found.message
        assert f"{restarts.control} times in the control arm" in found.message
