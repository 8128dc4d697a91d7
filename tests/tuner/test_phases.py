"""The table of phases: no dead ends, and only resting phases may last."""

import pytest

from kvtune_api.names import Phase
from kvtune_tuner.phases import EXPOSED, NEXT, RESTING, Turn, after


@pytest.mark.parametrize("phase", list(Phase))
def test_case_16_every_phase_has_a_way_out(phase: Phase) -> None:
    assert {to for (start, _), to in NEXT.items() if start is phase} - {phase}


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_reached_from_idle_and_comes_back_to_it(phase: Phase) -> None:
    assert phase in _reached({Phase.IDLE}), "no way leads here"
    assert Phase.IDLE in _reached({phase}), "no way leads back"


@pytest.mark.parametrize("phase", sorted(set(Phase) - RESTING - {Phase.ROLLING_BACK}))
def test_case_26_an_experiment_can_be_ended_in_every_phase_that_is_not_resting(phase: Phase) -> None:
    assert after(phase, Turn.ENDED) is Phase.ROLLING_BACK


def test_a_waiting_winner_can_be_ended_too() -> None:
    assert after(Phase.AWAITING_APPROVAL, Turn.ENDED) is Phase.ROLLING_BACK


def test_no_resting_phase_exposes_anybody() -> None:
    assert not EXPOSED & RESTING
    assert Phase.RUN_IN not in EXPOSED and Phase.ROLLING_BACK not in EXPOSED


def test_no_turn_leads_back_into_a_rest_but_by_restoring_or_winning() -> None:
    into_idle = {turn for (_, turn), to in NEXT.items() if to is Phase.IDLE}
    assert into_idle == {Turn.RESTORED, Turn.WATCHED, Turn.RESUMED}


def test_a_turn_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no way from Idle by Superior"):
        after(Phase.IDLE, Turn.SUPERIOR)


def _reached(begin: set[Phase]) -> set[Phase]:
    found = set(begin)
    while more := {to for (start, _), to in NEXT.items() if start in found} - found:
        found |= more
    return found
