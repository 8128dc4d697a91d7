"""Hints of clients that are right with a given probability, and what ours makes of them."""

import math
import random

import numpy as np
import pytest

from kvtune_cache.requests import Requests
from kvtune_lab.explain.hints import IS_OVER, hinted_rates, hints, returns_of
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator, Way
from tests.lab.capacity.traces import trace


def coming_and_going(count: int) -> Requests:
    """Sessions of six blocks; every second one, drawn at random, returns once some 40 requests later."""
    rng = random.Random(1)
    order = []
    for session in range(count):
        order.append((session, session))
        if rng.random() < 0.5:
            order.append((session + rng.uniform(30, 50), session))
    return trace([range(10 * session, 10 * session + 6) for _, session in sorted(order)])


def test_a_session_returns_when_one_of_the_last_two_blocks_of_a_request_is_touched_again() -> None:
    rows = [[0, 1, 2], [0, 9], [0, 1, 3], [0, 1, 2]]
    found = returns_of(trace(rows, seconds_apart=2.0)).seconds.tolist()
    assert found == [4.0, 2.0, 2.0, math.inf], "0 comes back with the request of two blocks"


def test_a_return_in_the_same_tick_is_one() -> None:
    found = returns_of(trace([[0, 1], [0, 1]], seconds_apart=0.0))
    assert 0 < found.seconds[0] < 0.01


def test_right_hints_say_what_is_true() -> None:
    returns = returns_of(coming_and_going(50))
    told = hints(returns, 1.0)
    back = np.isfinite(returns.seconds)
    assert 0 < back.sum() < len(back)
    assert told[back].tolist() == returns.seconds[back].tolist()
    assert set(told[~back]) == {IS_OVER}


def test_wrong_hints_say_the_contrary_as_often_as_they_should() -> None:
    returns = returns_of(coming_and_going(2_000))
    wrong = (hints(returns, 0.8) > 0) != np.isfinite(returns.seconds)
    assert wrong.mean() == pytest.approx(0.2, abs=0.03)
    assert hints(returns, 0.8).tolist() == hints(returns, 0.8).tolist(), "drawn with a fixed seed"


def test_where_no_session_returns_wrong_hints_say_nothing() -> None:
    told = hints(returns_of(trace([[r] for r in range(200)])), 0.5)
    assert set(told) == {0.0, IS_OVER}


@pytest.mark.parametrize("accuracy", [0.4, 1.1, math.nan])
def test_an_accuracy_that_is_none_is_refused(accuracy: float) -> None:
    with pytest.raises(ValueError, match=r"hint accuracy: .* is not within \[0.5, 1\]"):
        hints(returns_of(trace([[0]])), accuracy)


def test_better_hints_bring_more_and_right_ones_much() -> None:
    requests, told = coming_and_going(600), []
    rates = hinted_rates(requests, [100], [0.6, 0.8, 1.0], progress=lambda done, of: told.append((done, of)))
    setup = Setup(policy=Policy.REUSE_AWARE, capacity_blocks=100)
    without = Simulator(requests, Way.PLAIN).simulate(setup).token_hit_rate_last_half
    found = [rate for (rate,) in rates.values()]
    assert found == sorted(found) and found[-1] > without + 0.1
    assert told == [(1, 3), (2, 3), (3, 3)]
