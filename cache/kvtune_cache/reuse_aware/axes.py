"""What a person calls the axes of classes.py and their levels, in its order; a test holds both together."""

from typing import Final

AXIS_NAMES: Final = (
    "touches before",
    "pause",
    "new blocks",
    "answer",
    "ends the request",
    "kind",
    "client's hint",
)
LEVEL_NAMES: Final = (
    ("never", "1 to 3", "4 or more"),
    ("nothing before", "under 60 s", "60 s or more"),
    ("0 or 1", "2 to 7", "8 or more"),
    ("under 100 tokens", "100 to 349", "350 or more"),
    ("no", "yes"),
    ("not known", "1", "2", "3", "4", "5"),
    ("none", "is over", "returns within 60 s", "returns later"),
)
