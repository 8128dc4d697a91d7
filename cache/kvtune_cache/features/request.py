"""All features of one request together, and how policies are told of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtune_cache.classes import KINDS, class_of
from kvtune_cache.features.prefix import signature
from kvtune_cache.features.rhythm import Rhythm, Rhythms
from kvtune_cache.signals import CLASS, KIND, SIGNATURE, SWITCHED, TURN, Floats

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What is known of a request beside its blocks."""

    kind: int
    """Request type or stop reason, 0 (not known) to 5."""

    rhythm: Rhythm | None
    """None: its session is not known."""

    signature: int
    """Of a document's first tokens; 0: not known."""

    hour_phase: float | None
    """Share of the hour that has passed, 0 to below 1; None: the time of day is not known."""

    def __post_init__(self) -> None:
        """Refuse a kind that policies do not know."""
        if not 0 <= self.kind < KINDS:
            raise ValueError(f"kind: {self.kind} is not from 0 to {KINDS - 1}")


class FeatureReader:
    """Work out the features of requests as they come, in O(1) each."""

    __slots__ = ("_hour_offset_s", "_rhythms")

    def __init__(self, rhythms: Rhythms | None = None, *, hour_offset_s: float | None = None) -> None:
        """Start with no session; `hour_offset_s` is how far past a full hour the clock's 0 is."""
        self._rhythms = rhythms or Rhythms()
        self._hour_offset_s = hour_offset_s

    def read(
        self, now_s: float, *, session: int | None = None, kind: int = 0, document: Sequence[int] = ()
    ) -> Features:
        """Give the features of a request; `document` are the first tokens of one, where it has one."""
        return Features(
            kind=kind,
            rhythm=None if session is None else self._rhythms.seen(session, now_s),
            signature=signature(document),
            hour_phase=None if self._hour_offset_s is None else hour_phase(now_s + self._hour_offset_s),
        )


def hour_phase(seconds: float) -> float:
    """Give the share of the hour that has passed at a time, in seconds since any full hour."""
    return seconds % HOUR_SECONDS / HOUR_SECONDS


def request_class(features: Features) -> int:
    """Give the class of a request, 0 to CLASSES - 1: its kind and turn; an unknown session is at turn 1."""
    return class_of(features.kind, 1 if features.rhythm is None else features.rhythm.turn)


def signal(features: Features, request: Floats) -> None:
    """Fill in the slots of `Cache.request` that features tell; CLASS is left to the policy."""
    rhythm = features.rhythm
    request[KIND] = features.kind
    request[TURN] = 0 if rhythm is None else rhythm.turn
    request[SWITCHED] = 0 if rhythm is None or not rhythm.topic_switched else 1
    request[SIGNATURE] = features.signature
    request[CLASS] = 0
