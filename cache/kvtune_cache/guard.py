"""Guard a policy: fall back to LRU where there is little reuse for long, or where the policy raises.

Pure: told of counts, failures and commands with their times, it says when to fall back and when to return.
Whoever runs the cache switches the policy (every block is kept) and tells people.

The *reuse rate* is the share of block references whose block was referenced before within the window; it is
a property of the traffic, whatever the cache holds. It is known only where enough was referenced during most
of the window: missing traffic is not a low rate. It never brings a policy back either.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from kvtune_cache.reuse import ReuseHistogram

STEPS_PER_WINDOW = 30
LEAST_STEPS_WITH_TRAFFIC = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """Limits of the guard; raises ValueError naming the field for numbers outside theirs."""

    least_reuse_rate: float | None = 0.4
    """Below it over a whole window the policy falls back (systems.md, section 3); None: only if it raises."""

    window_seconds: float = 300.0

    fewest_references: int = 1000
    """Block references in the window without which the rate is not known."""

    quiet_seconds: float | None = None
    """Return after so long without a cause; None: only on command."""

    def __post_init__(self) -> None:
        """Refuse what no limit can be."""
        if self.least_reuse_rate is not None and not 0.0 < self.least_reuse_rate <= 1.0:
            raise ValueError(f"least_reuse_rate: {self.least_reuse_rate} is not above 0 and at most 1")
        if not 0.0 < self.window_seconds < float("inf"):
            raise ValueError(f"window_seconds: {self.window_seconds} is not above 0")
        if self.fewest_references < 1:
            raise ValueError(f"fewest_references: {self.fewest_references} is less than 1")
        if self.quiet_seconds is not None and not self.quiet_seconds > 0.0:
            raise ValueError(f"quiet_seconds: {self.quiet_seconds} is not above 0")


class Cause(StrEnum):
    """Why the guard has changed what runs."""

    LOW_REUSE = "LowReuse"
    POLICY_FAILED = "PolicyFailed"
    QUIET = "Quiet"
    COMMAND = "Command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Run LRU from now on, or the wanted policy again."""

    fallen_back: bool
    at_s: float
    cause: Cause
    message: str


class PolicyGuard:
    """Watch one policy; times never go back."""

    __slots__ = ("_last", "_quiet_since_s", "_rules", "_steps", "_watching_since_s", "falls")

    def __init__(self, rules: GuardRules, now_s: float) -> None:
        """Start to watch, with nothing known of the traffic."""
        self._rules = rules
        self._steps: deque[_Step] = deque()
        self._last: Change | None = None
        self._watching_since_s = now_s
        self._quiet_since_s = now_s
        self.falls = 0
        """How often the policy has fallen back."""

    @property
    def fallen_back(self) -> bool:
        """Say whether LRU is to run in place of the wanted policy."""
        return self._last is not None and self._last.fallen_back

    @property
    def last_change(self) -> Change | None:
        """Give the latest change; None: none yet."""
        return self._last

    def observe(self, now_s: float, references: int, reused: int) -> Change | None:
        """Take in the block references since the last call, and how many of them were reuses.

        Raises ValueError for counts that cannot be.
        """
        if not 0 <= reused <= references:
            raise ValueError(f"reused: {reused} is not from 0 to references, {references}")
        self._add(now_s, references, reused)
        rate = self.reuse_rate(now_s)
        limit = self._rules.least_reuse_rate
        low = limit is not None and rate is not None and rate < limit
        if not self.fallen_back:
            if not low:
                return None
            message = f"reuse rate {rate:.3f} under {limit:g} for {self._rules.window_seconds:g} s"
            return self._fall(now_s, Cause.LOW_REUSE, message)
        if self._last is not None and self._last.cause is Cause.LOW_REUSE and (low or rate is None):
            self._quiet_since_s = now_s
        return self._return_when_quiet(now_s)

    def failed(self, now_s: float, error: str) -> Change | None:
        """Take in that the policy has raised; None where LRU runs already."""
        self._quiet_since_s = now_s
        return None if self.fallen_back else self._fall(now_s, Cause.POLICY_FAILED, error)

    def restore(self, now_s: float) -> Change | None:
        """Return on command; None where the policy runs already. A low rate counts from now on."""
        return self._return(now_s, Cause.COMMAND, "asked to return") if self.fallen_back else None

    def judge_by(self, rules: GuardRules, now_s: float) -> None:
        """Take other rules: traffic is judged anew, and a fallback stays until they let the policy return."""
        if rules != self._rules:
            self._rules = rules
            self._steps.clear()
            self._watching_since_s = now_s

    def reuse_rate(self, now_s: float) -> float | None:
        """Give the reuse rate of the window that ends now; None where it is not known."""
        rules = self._rules
        self._forget_before(now_s - rules.window_seconds)
        references = sum(step.references for step in self._steps)
        if now_s - self._watching_since_s < rules.window_seconds:
            return None
        if references < rules.fewest_references or len(self._steps) < LEAST_STEPS_WITH_TRAFFIC:
            return None
        return sum(step.reused for step in self._steps) / references

    def _add(self, now_s: float, references: int, reused: int) -> None:
        """Add counts to the step of the window that now belongs to."""
        if references == 0:
            return
        number = int(now_s // (self._rules.window_seconds / STEPS_PER_WINDOW))
        if not self._steps or self._steps[-1].number != number:
            self._steps.append(_Step(number))
        step = self._steps[-1]
        step.last_s = now_s
        step.references += references
        step.reused += reused

    def _forget_before(self, earliest_s: float) -> None:
        """Forget the steps that ended before a time."""
        while self._steps and self._steps[0].last_s < earliest_s:
            self._steps.popleft()

    def _fall(self, now_s: float, cause: Cause, message: str) -> Change:
        """Fall back."""
        self.falls += 1
        self._quiet_since_s = now_s
        self._last = Change(fallen_back=True, at_s=now_s, cause=cause, message=message)
        return self._last

    def _return(self, now_s: float, cause: Cause, message: str) -> Change:
        """Return to the policy, and judge the traffic anew."""
        self._steps.clear()
        self._watching_since_s = now_s
        self._last = Change(fallen_back=False, at_s=now_s, cause=cause, message=message)
        return self._last

    def _return_when_quiet(self, now_s: float) -> Change | None:
        """Return where there was no cause for long enough."""
        quiet_s = self._rules.quiet_seconds
        if quiet_s is None or now_s - self._quiet_since_s < quiet_s:
            return None
        return self._return(now_s, Cause.QUIET, f"no cause to run LRU for {quiet_s:g} s")


class _Step:
    """Counts of one part of the window."""

    __slots__ = ("last_s", "number", "references", "reused")

    def __init__(self, number: int) -> None:
        """Start at nothing."""
        self.number = number
        self.last_s = 0.0
        self.references = 0
        self.reused = 0


def reused_within(histogram: ReuseHistogram, seconds: float) -> int:
    """Count the touches whose block was touched before within a time, rounded up to the next bin edge.

    Differences of this and of `touches` between two snapshots are what a guard observes. Raises ValueError
    for a time above the top edge.
    """
    edges = histogram.upper_edges_s
    if seconds > edges[-1]:
        raise ValueError(f"seconds: {seconds} is above the top edge of {edges[-1]}")
    bins = next(i for i, edge in enumerate(edges) if edge >= seconds)
    return sum(histogram.counts[: bins + 1])
