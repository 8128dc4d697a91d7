"""The rhythm of sessions: how far apart their requests are, which turn it is, whether the topic has switched.

Online, a few operations a request. Memory holds at most a stated number of sessions, and forgets the one that
has been silent longest. A session that was forgotten begins anew, at turn 1.
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True, kw_only=True)
class RhythmRules:
    """Constants of the rhythm; raises ValueError naming the field for numbers outside their limits."""

    sessions: int = 65_536
    """Sessions in memory, about 200 bytes each."""

    newest_weight: float = 0.25
    """Weight of the newest gap in the moving mean: about the last seven gaps count."""

    topic_answers: int = 3
    topic_gap_seconds: float = 15.0
    """A session has switched its topic when so many requests came each within the gap of the one before
    (systems.md, section 3); it has not any more after a longer gap. 0 answers: never."""

    def __post_init__(self) -> None:
        """Refuse what no rule can be."""
        if self.sessions < 1:
            raise ValueError(f"sessions: {self.sessions} is less than 1")
        if not 0.0 < self.newest_weight <= 1.0:
            raise ValueError(f"newest_weight: {self.newest_weight} is not above 0 and at most 1")
        if self.topic_answers < 0:
            raise ValueError(f"topic_answers: {self.topic_answers} is less than 0")
        if not self.topic_gap_seconds >= 0.0:
            raise ValueError(f"topic_gap_seconds: {self.topic_gap_seconds} is not at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """What is known of a session at one of its requests, this one included. None: not known yet."""

    turn: int
    """From 1."""

    gap_seconds: float | None
    """Since the request before."""

    mean_gap_seconds: float | None
    """Moving mean of the gaps."""

    gap_cv: float | None
    """Moving standard deviation of the gaps over their mean; known from the second gap on."""

    topic_switched: bool


class Rhythms:
    """Follow the sessions of one engine; times never go back."""

    __slots__ = ("_rules", "_sessions")

    def __init__(self, rules: RhythmRules | None = None) -> None:
        """Start with no session."""
        self._rules = rules or RhythmRules()
        self._sessions: OrderedDict[int, _Session] = OrderedDict()

    def __len__(self) -> int:
        """Count the sessions in memory."""
        return len(self._sessions)

    def seen(self, session: int, now_s: float) -> Rhythm:
        """Take in one request of a session, and say what is known of the session with it.

        A time before the session's last one counts as a gap of 0.
        """
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = _Session(now_s)
            if len(self._sessions) > self._rules.sessions:
                self._sessions.popitem(last=False)
        else:
            self._sessions.move_to_end(session)
            known.go_on(max(0.0, now_s - known.last_s), self._rules)
            known.last_s = max(known.last_s, now_s)
        return known.rhythm(self._rules)


class _Session:
    """One session's sums."""

    __slots__ = ("gap_s", "last_s", "mean_s", "run", "turn", "variance")

    def __init__(self, now_s: float) -> None:
        """Begin with the first request."""
        self.turn = 1
        self.run = 1
        self.last_s = now_s
        self.gap_s: float | None = None
        self.mean_s = 0.0
        self.variance = 0.0

    def go_on(self, gap_s: float, rules: RhythmRules) -> None:
        """Take in the next request (moving mean and variance: Finch, 2009, section 9)."""
        self.turn += 1
        self.run = self.run + 1 if gap_s < rules.topic_gap_seconds else 1
        if self.gap_s is None:
            self.mean_s = gap_s
        else:
            off = gap_s - self.mean_s
            step = rules.newest_weight * off
            self.mean_s += step
            self.variance = (1.0 - rules.newest_weight) * (self.variance + off * step)
        self.gap_s = gap_s

    def rhythm(self, rules: RhythmRules) -> Rhythm:
        """Say what is known."""
        return Rhythm(
            turn=self.turn,
            gap_seconds=self.gap_s,
            mean_gap_seconds=None if self.gap_s is None else self.mean_s,
            gap_cv=sqrt(self.variance) / self.mean_s if self.turn > 2 and self.mean_s > 0.0 else None,
            topic_switched=0 < rules.topic_answers <= self.run,
        )
