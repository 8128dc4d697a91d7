"""Classes of touches: what is known at a touch that says something about the next one.

Seven axes: how often the block was touched before, how long the conversation had paused, how much of the
request is new, how long the answer was, whether the block ends the request; and, where the caller tells them,
the kind of request and what the client expects of its session. A class is one level of each. What a hint is
worth is learned like everything else, so that wrong ones lose their weight.
"""

from typing import Final

from kvtune_cache.blocks import Integers

AXES: Final = 7
TOUCHES, GAP, FRESH, ANSWER, ENDING, KINDS, HINTS = 0, 1, 2, 3, 4, 5, 6
"""The axes in their order, the most significant first."""

LEVELS: Final = 6
"""No axis has more levels than this."""

TOUCH_LEVELS: Final = 3
ENDING_LEVELS: Final = 2
KIND_LEVELS: Final = 6
HINT_LEVELS: Final = 4
TOLD: Final = KIND_LEVELS * HINT_LEVELS
"""Classes that differ only in what the caller tells; the first of them is that where nothing is told."""

ENDING_STEP: Final = TOLD
REQUEST_STEP: Final = ENDING_STEP * ENDING_LEVELS
TOUCH_STEP: Final = REQUEST_STEP * 3 * 3 * 3
UNTOLD: Final = 3 * 3 * 3 * ENDING_LEVELS * TOUCH_LEVELS
CLASSES: Final = UNTOLD * TOLD
"""162 by counts of touches, gaps, amounts of new blocks, lengths of answers and endings; 24 as many by
all."""

ENDED_PRIOR: Final = 0.1
SOON_PRIOR: Final = 2.0
SOON_SECONDS: Final = 60.0
"""Touches to expect, before anything is learned of hints, of sessions that are said to be over and of those
that are said to return within this time, in shares of those of sessions of which nothing is said."""

FEW_TOUCHES: Final = 4
"""Counts of earlier touches beyond this one make no difference: levels 0, 1 to 3, 4 and more."""

UNKNOWN: Final = (2 * 3 + 1) * REQUEST_STEP
"""The class of blocks taken over from another policy: first touch, no gap, much new, middling answer."""


def request_class(gap_seconds: float, fresh_blocks: int, output_tokens: float, told: int) -> int:
    """Tell the part of the class that all blocks of a request share.

    `gap_seconds` is negative where the request continues nothing known.
    """
    gap = 0 if gap_seconds < 0.0 else (1 if gap_seconds < 60.0 else 2)
    fresh = 0 if fresh_blocks < 2 else (1 if fresh_blocks < 8 else 2)
    answer = 0 if output_tokens < 100.0 else (1 if output_tokens < 350.0 else 2)
    return ((gap * 3 + fresh) * 3 + answer) * REQUEST_STEP + told


def told_class(kind: int, hint: float) -> int:
    """Tell the part of the class that the caller tells: a kind of request, and a hint as in signals.py."""
    level = 0
    if hint < 0.0:
        level = 1
    elif hint > 0.0:
        level = 2 if hint <= SOON_SECONDS else 3
    return kind * HINT_LEVELS + level


def hint_prior(level: int) -> float:
    """Tell the factor on the hazard that a hint is given before anything is learned of hints."""
    if level == 1:
        return ENDED_PRIOR
    return SOON_PRIOR if level == 2 else 1.0


def put_levels(levels: Integers, at: int, number: int) -> None:
    """Write the AXES levels of a class from `at` on."""
    levels[at + HINTS] = number % HINT_LEVELS
    rest = number // HINT_LEVELS
    levels[at + KINDS] = rest % KIND_LEVELS
    rest //= KIND_LEVELS
    levels[at + ENDING] = rest % ENDING_LEVELS
    rest //= ENDING_LEVELS
    levels[at + ANSWER] = rest % 3
    rest //= 3
    levels[at + FRESH] = rest % 3
    rest //= 3
    levels[at + GAP] = rest % 3
    levels[at + TOUCHES] = rest // 3
