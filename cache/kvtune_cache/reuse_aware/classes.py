"""Classes of touches: what is known at a touch that says something about the next one.

Six axes, label-free but for the last: how often the block was touched before, how long the conversation had
paused, how much of the request is new, how long the answer was, whether the block ends the request, and the
kind of request where the caller tells one. A class is one level of each.
"""

from typing import Final

from kvtune_cache.blocks import Integers

AXES: Final = 6
TOUCHES, GAP, FRESH, ANSWER, ENDING, KINDS = 0, 1, 2, 3, 4, 5
"""The axes in their order, the most significant first."""

TOUCH_LEVELS: Final = 3
LEVELS: Final = 6
"""No axis has more levels than this."""

KIND_LEVELS: Final = 6
ENDING_LEVELS: Final = 2
ENDING_STEP: Final = KIND_LEVELS
REQUEST_STEP: Final = ENDING_STEP * ENDING_LEVELS
TOUCH_STEP: Final = REQUEST_STEP * 3 * 3 * 3
CLASSES: Final = TOUCH_STEP * TOUCH_LEVELS
"""972: 3 counts of touches, 3 gaps, 3 amounts of new blocks, 3 lengths of answers, 2 endings, 6 kinds."""

FEW_TOUCHES: Final = 4
"""Counts of earlier touches beyond this one make no difference: levels 0, 1 to 3, 4 and more."""

UNKNOWN: Final = 2 * 3 * REQUEST_STEP + REQUEST_STEP
"""The class of blocks taken over from another policy: first touch, no gap, much new, middling answer."""


def request_class(gap_seconds: float, fresh_blocks: int, output_tokens: float, kind: int) -> int:
    """Tell the part of the class that all blocks of a request share.

    `gap_seconds` is negative where the request continues nothing known.
    """
    gap = 0 if gap_seconds < 0.0 else (1 if gap_seconds < 60.0 else 2)
    fresh = 0 if fresh_blocks < 2 else (1 if fresh_blocks < 8 else 2)
    answer = 0 if output_tokens < 100.0 else (1 if output_tokens < 350.0 else 2)
    return ((gap * 3 + fresh) * 3 + answer) * REQUEST_STEP + kind


def put_levels(levels: Integers, at: int, number: int) -> None:
    """Write the AXES levels of a class from `at` on."""
    levels[at + KINDS] = number % KIND_LEVELS
    rest = number // KIND_LEVELS
    levels[at + ENDING] = rest % ENDING_LEVELS
    rest //= ENDING_LEVELS
    levels[at + ANSWER] = rest % 3
    rest //= 3
    levels[at + FRESH] = rest % 3
    rest //= 3
    levels[at + GAP] = rest % 3
    levels[at + TOUCHES] = rest // 3
