"""The phases of a policy as a table: which may follow which, which rest, and what ends each.

A resting phase has incumbents everywhere and no lease. Every other phase has a deadline, kept in the
experiment's status, so that no phase can last for ever (cases 16 and 26).
"""

from enum import StrEnum

from kvtune_api.names import Phase


class Turn(StrEnum):
    """What makes a policy change its phase."""

    STARTED = "Started"
    RUN_IN_NEEDED = "RunInNeeded"
    SWITCHED = "Switched"
    WASHED_OUT = "WashedOut"
    EPOCH_ENDED = "EpochEnded"
    SUPERIOR = "Superior"
    APPROVED = "Approved"
    APPROVAL_NEEDED = "ApprovalNeeded"
    RAMPED = "Ramped"
    WATCHED = "Watched"
    ENDED = "Ended"
    RESTORED = "Restored"
    PAUSED = "Paused"
    RESUMED = "Resumed"


RESTING = frozenset({Phase.IDLE, Phase.PAUSED, Phase.AWAITING_APPROVAL})

EXPOSED = frozenset({Phase.WASHOUT, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING})
"""Phases in which some agent may run a candidate."""

NEXT: dict[tuple[Phase, Turn], Phase] = {
    (Phase.IDLE, Turn.STARTED): Phase.PROPOSED,
    (Phase.IDLE, Turn.PAUSED): Phase.PAUSED,
    (Phase.PAUSED, Turn.RESUMED): Phase.IDLE,
    (Phase.PROPOSED, Turn.RUN_IN_NEEDED): Phase.RUN_IN,
    (Phase.PROPOSED, Turn.SWITCHED): Phase.WASHOUT,
    (Phase.PROPOSED, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.RUN_IN, Turn.EPOCH_ENDED): Phase.RUN_IN,
    (Phase.RUN_IN, Turn.SWITCHED): Phase.WASHOUT,
    (Phase.RUN_IN, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.WASHOUT, Turn.SWITCHED): Phase.WASHOUT,
    (Phase.WASHOUT, Turn.WASHED_OUT): Phase.MEASURING,
    (Phase.WASHOUT, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.MEASURING, Turn.SWITCHED): Phase.WASHOUT,
    (Phase.MEASURING, Turn.SUPERIOR): Phase.PROMOTING,
    (Phase.MEASURING, Turn.APPROVAL_NEEDED): Phase.AWAITING_APPROVAL,
    (Phase.MEASURING, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.AWAITING_APPROVAL, Turn.APPROVED): Phase.PROMOTING,
    (Phase.AWAITING_APPROVAL, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.PROMOTING, Turn.RAMPED): Phase.WATCHING,
    (Phase.PROMOTING, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.WATCHING, Turn.WATCHED): Phase.IDLE,
    (Phase.WATCHING, Turn.ENDED): Phase.ROLLING_BACK,
    (Phase.ROLLING_BACK, Turn.RESTORED): Phase.IDLE,
}


def after(phase: Phase, turn: Turn) -> Phase:
    """The phase that follows. A pair that is not in the table is a bug, not a user's error."""
    assert (phase, turn) in NEXT, f"no way from {phase} by {turn}"
    return NEXT[phase, turn]
