"""Classes of requests: by kind and turn, as policies and features see them. Compiles as it is."""

from typing import Final

KINDS: Final = 6
TURN_BUCKETS: Final = 5
"""Turn 1, 2, 3, 4 to 5, 6 and later: the buckets in which chat differs (cache.md, table of classes)."""

CLASSES: Final = KINDS * TURN_BUCKETS


def turn_bucket(turn: int) -> int:
    """Give the bucket, from 0, of a turn, from 1."""
    return min(turn, 4) - 1 if turn < 6 else TURN_BUCKETS - 1


def class_of(kind: int, turn: int) -> int:
    """Give the class, from 0 to CLASSES - 1, of a request of this kind (0 to KINDS - 1) and turn (from 1)."""
    return kind * TURN_BUCKETS + turn_bucket(turn)
