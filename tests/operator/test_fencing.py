"""Fencing tokens: one agent that reports nonsense must not spoil them for all others."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.wire import LARGEST_INTEGER
from kvtune_operator.fencing import AHEAD_MILLISECONDS, believed, next_token

NOW = 1_900_000_000_000
ANY = st.integers(0, LARGEST_INTEGER)


def test_the_highest_token_of_agents_is_believed_up_to_a_day_ahead() -> None:
    assert believed({"a-0": 5, "a-1": NOW + AHEAD_MILLISECONDS}, NOW) == NOW + AHEAD_MILLISECONDS
    assert believed({}, NOW) == 0


@pytest.mark.parametrize("wrong", [LARGEST_INTEGER, LARGEST_INTEGER - 1, NOW + AHEAD_MILLISECONDS + 1])
def test_a_token_that_cannot_be_true_is_ignored_and_its_agent_named(
    wrong: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert believed({"bad-0": wrong, "good-0": NOW}, NOW) == NOW

    (record,) = caplog.records
    assert (vars(record)["agent"], vars(record)["token"]) == ("bad-0", wrong)


@pytest.mark.parametrize(
    ("previous", "reported", "clock", "token"),
    [(0, 0, 1000, 1001), (5000, 0, 1000, 5001), (0, 9000, 1000, 9001)],
)
def test_a_new_token_is_above_every_earlier_one(previous: int, reported: int, clock: int, token: int) -> None:
    assert next_token(previous, reported, clock) == token


@given(ANY, ANY, st.integers(0, 4_000_000_000_000))
def test_a_new_token_can_always_be_sent_and_is_above_the_clock(
    previous: int, reported: int, clock: int
) -> None:
    assert clock < next_token(previous, reported, clock) < LARGEST_INTEGER
