"""The rhythm of sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.features.rhythm import Rhythm, RhythmRules, Rhythms


def last(times: list[float], rules: RhythmRules | None = None) -> Rhythm:
    """The rhythm of a session at the last of these times."""
    rhythms = Rhythms(rules)
    return [rhythms.seen(7, now) for now in times][-1]


def test_the_first_request_of_a_session_has_no_gap() -> None:
    assert last([5.0]) == Rhythm(
        turn=1, gap_seconds=None, mean_gap_seconds=None, gap_cv=None, topic_switched=False
    )


def test_an_even_rhythm_has_its_gap_as_mean_and_no_variation() -> None:
    rhythm = last([0.0, 20.0, 40.0, 60.0, 80.0])
    assert (rhythm.turn, rhythm.gap_seconds, rhythm.mean_gap_seconds, rhythm.gap_cv) == (5, 20.0, 20.0, 0.0)


def test_newer_gaps_count_more() -> None:
    rhythm = last([0.0, 20.0, 60.0], RhythmRules(newest_weight=0.25))
    assert rhythm.mean_gap_seconds == 25.0
    assert rhythm.gap_cv == pytest.approx((0.75 * 0.25) ** 0.5 * 20.0 / 25.0)


def test_three_quick_answers_in_a_row_switch_the_topic_and_a_pause_ends_it() -> None:
    assert not last([0.0, 14.9]).topic_switched
    assert last([0.0, 14.9, 29.8]).topic_switched
    assert not last([0.0, 15.0, 29.9]).topic_switched
    assert not last([0.0, 1.0, 2.0, 100.0]).topic_switched
    assert not last([0.0, 1.0, 2.0], RhythmRules(topic_answers=0)).topic_switched


def test_a_session_that_was_silent_longest_is_forgotten_first() -> None:
    rhythms = Rhythms(RhythmRules(sessions=2))
    for session in (1, 2, 1, 3):
        rhythms.seen(session, 0.0)
    assert rhythms.seen(1, 0.0).turn == 3
    assert rhythms.seen(2, 0.0).turn == 1


def test_a_time_that_goes_back_is_a_gap_of_nothing() -> None:
    assert last([10.0, 4.0]).gap_seconds == 0.0
    assert last([10.0, 4.0, 11.0]).gap_seconds == 1.0


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1e6)), max_size=60), st.integers(1, 5))
def test_law_memory_is_bounded_and_turns_count_the_requests(
    drawn: list[tuple[int, float]], sessions: int
) -> None:
    rhythms, now, everyone = Rhythms(RhythmRules(sessions=sessions)), 0.0, Rhythms()
    counts: dict[int, int] = {}
    for session, gap in drawn:
        now += gap
        counts[session] = counts.get(session, 0) + 1
        assert rhythms.seen(session, now).turn <= counts[session] == everyone.seen(session, now).turn
        assert len(rhythms) <= sessions


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sessions", 0),
        ("newest_weight", float("nan")),
        ("topic_answers", -1),
        ("topic_gap_seconds", float("nan")),
    ],
)
def test_constants_that_cannot_be_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        RhythmRules(**{field: value})  # type: ignore[arg-type]  # the test gives each field what it cannot be
