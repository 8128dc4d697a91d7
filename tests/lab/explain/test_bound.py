"""The bound of what is known of a touch, and what hints add."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_cache.requests import Requests
from kvtune_lab.explain.bound import SCHEMES, bound, hinted
from kvtune_lab.explain.tally import GRID, Tally, tallied
from kvtune_lab.readers.mooncake import BLOCK_TOKENS, read_mooncake
from tests.lab.capacity.traces import branching, sessions, skewed, trace
from tests.lab.packed import packed

CONVERSATION = Path(__file__).parents[4] / "shared/traces/mooncake_conversation_trace.jsonl.gz"
ALL = SCHEMES["all classes"]


@pytest.fixture(scope="module")
def conversation() -> Tally:
    """The Mooncake conversation trace."""
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    return tallied(packed(read_mooncake(CONVERSATION), block_tokens=BLOCK_TOKENS))


CAPACITIES = [1_828, 3_656, 9_140, 18_279]
"""1, 2, 5 and 10 % of the conversation trace's distinct blocks."""


@pytest.mark.parametrize(
    ("axes", "percent"),
    [(ALL, [13.5, 18.3, 26.7, 33.5]), (SCHEMES["no class"], [7.5, 10.9, 20.8, 29.6])],
)
def test_the_bounds_of_the_conversation_trace(
    conversation: Tally, axes: tuple[int, ...], percent: list[float]
) -> None:
    found = [100 * rate for rate in bound(conversation, CAPACITIES, axes)]
    assert found == pytest.approx(percent, abs=0.1), "design/cache.md"


def test_knowing_who_returns_gives_the_conversation_trace_what_was_published(conversation: Tally) -> None:
    assert 100 * hinted(conversation, [1_828], (), 1.0)[0] == pytest.approx(16.8, abs=0.1), "design/cache.md"


def test_blocks_held_as_long_as_they_wait_take_the_room_of_their_waits() -> None:
    requests = trace([(1,), (2,), (1,), (2,), (1,), (2,)])
    tally = tallied(requests)
    # From 3 s to 5 s: every block waits 2 s. With room for both the three touches hit, with half for half.
    assert tally.span_s == 2
    assert bound(tally, [2], ALL)[0] == 1
    assert tally.block_seconds.sum(axis=(0, 1, 2, 3, 4, 5))[-1] == pytest.approx(4)


@settings(max_examples=40, deadline=None)
@given(branching(), st.integers(1, 30))
def test_more_knowledge_and_more_room_never_hit_less(requests: Requests, capacity: int) -> None:
    if len(requests.starts) < 4:
        return
    tally = tallied(requests)
    rates = [bound(tally, [capacity, 2 * capacity], axes) for axes in SCHEMES.values()]
    assert rates[0][0] <= rates[1][0] + 1e-9 and rates[1][0] <= rates[2][0] + 1e-9
    assert all(small <= large + 1e-9 for small, large in rates)


@pytest.mark.parametrize("requests", [skewed(600), sessions(30, 8)])
def test_a_hint_of_half_says_nothing_and_better_ones_say_more(requests: Requests) -> None:
    tally = tallied(requests)
    rates = [hinted(tally, [40], ALL, accuracy)[0] for accuracy in (0.5, 0.7, 0.9, 1.0)]
    assert rates[0] == pytest.approx(bound(tally, [40], ALL)[0], abs=1e-6)
    assert rates == sorted(rates)


@pytest.mark.parametrize("accuracy", [0.4, 1.1, float("nan")])
def test_an_accuracy_that_is_none_is_refused(accuracy: float) -> None:
    with pytest.raises(ValueError, match=r"hint accuracy: .* is not within \[0.5, 1\]"):
        hinted(tallied(sessions(2, 2)), [1], (), accuracy)


def test_a_trace_in_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="its last half begins and ends at 0 s"):
        tallied(trace([(1,), (1,)], seconds_apart=0.0))


def test_a_trace_that_never_comes_back_hits_nothing() -> None:
    tally = tallied(trace([(1,), (2,), (3,), (4,)]))
    assert len(tally.holds_s) == GRID
    assert bound(tally, [10], ALL) == [0.0]
