"""Fencing tokens: which are believed, and the next one (docs/architecture.md, "Fencing")."""

import logging
from collections.abc import Mapping

from kvtune_api.wire import LARGEST_INTEGER

log = logging.getLogger(__name__)

AHEAD_MILLISECONDS = 86_400_000
"""Tokens begin as unix milliseconds: one that an agent reports may be a day ahead of our clock, no more."""


def believed(reported: Mapping[str, int], unix_milliseconds: int) -> int:
    """The highest token that agents report, by agent; 0 without one. What cannot be true is ignored."""
    highest = 0
    for agent, token in sorted(reported.items()):
        if _is_believable(token, unix_milliseconds):
            highest = max(highest, token)
        else:
            log.warning(
                "an agent's fencing token is more than a day ahead of the clock, it is ignored",
                extra={"agent": agent, "token": token},
            )
    return highest


def next_token(previous: int, reported: int, unix_milliseconds: int) -> int:
    """A token above the stored one, the agents' and the time, and always one that can be sent.

    A stored one that leaves no room above it is ignored, and so is a reported one more than a day ahead.
    """
    known = [previous] if _leaves_room(previous) else []
    if _is_believable(reported, unix_milliseconds):
        known.append(reported)
    return max(*known, unix_milliseconds, 0) + 1


def _is_believable(token: int, unix_milliseconds: int) -> bool:
    return _leaves_room(token) and token <= unix_milliseconds + AHEAD_MILLISECONDS


def _leaves_room(token: int) -> bool:
    """Whether the next one stays below what every reader of JSON takes exactly."""
    return 0 <= token < LARGEST_INTEGER - 1
