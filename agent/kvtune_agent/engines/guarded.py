"""The eviction policy that a replay engine runs: the one asked for, or LRU while its guard has fallen back.

Called by guarded_model.py, which switches the cache (every block is kept) whenever `policy` has changed.
"""

import logging
from collections import Counter

from kvtune_api.knobs import EvictionPolicy
from kvtune_api.wire import Fallback
from kvtune_cache.guard import Change, GuardRules, PolicyGuard, reused_within
from kvtune_cache.reuse import ReuseHistogram

log = logging.getLogger(__name__)


class GuardedPolicy:
    """Watch the policy asked for; LRU itself needs no guard."""

    def __init__(self, wanted: str, rules: GuardRules, now: float, counts: ReuseHistogram) -> None:
        """Watch from `now` on (engine seconds); `counts` are the reuse counters at that time."""
        self.falls: Counter[str] = Counter()
        self._rules = rules
        self._wanted = wanted
        self._guard = PolicyGuard(rules, now)
        self._counts = counts

    @property
    def policy(self) -> str:
        """The policy to run."""
        return EvictionPolicy.LRU if self._guard.fallen_back else self._wanted

    @property
    def fallback(self) -> Fallback | None:
        """Why LRU runs in place of what was asked for; None while it does not."""
        change = self._guard.last_change
        if change is None or not change.fallen_back:
            return None
        return Fallback(reason=str(change.cause), message=change.message[:512], since=change.at_s)

    def ask(self, wanted: str, now: float, counts: ReuseHistogram) -> None:
        """Take another policy; it is not judged by what happened under the last one."""
        if wanted != self._wanted:
            self._wanted, self._counts = wanted, counts
            self._guard = PolicyGuard(self._rules, now)

    def watch_from(self, now: float, counts: ReuseHistogram) -> None:
        """Judge by what comes from now on; a fallback stays."""
        self._counts = counts
        if not self._guard.fallen_back:
            self._guard = PolicyGuard(self._rules, now)

    def judge_by(self, rules: GuardRules, now: float) -> None:
        """Take other rules from `now` on."""
        self._rules = rules
        self._guard.judge_by(rules, now)

    def observe(self, now: float, counts: ReuseHistogram) -> bool:
        """Look at the reuse since the last look; say whether `policy` has changed."""
        window = self._rules.window_seconds
        references = counts.touches - self._counts.touches
        reused = reused_within(counts, window) - reused_within(self._counts, window)
        self._counts = counts
        if self._wanted == EvictionPolicy.LRU:
            return False
        return self._taken(self._guard.observe(now, references, reused))

    def failed(self, now: float, error: Exception) -> bool:
        """Take in that the policy has raised; say whether `policy` has changed."""
        if self.policy == EvictionPolicy.LRU:
            return False
        return self._taken(self._guard.failed(now, f"{type(error).__name__}: {error}"))

    def restore(self, now: float) -> bool:
        """Return to the policy asked for; say whether `policy` has changed."""
        return self._taken(self._guard.restore(now))

    def _taken(self, change: Change | None) -> bool:
        if change is None:
            return False
        fields = {"policy": self._wanted, "cause": str(change.cause), "why": change.message}
        if change.fallen_back:
            self.falls[str(change.cause)] += 1
            log.warning("eviction policy fell back to LRU", extra=fields)
        else:
            log.info("eviction policy returned", extra=fields)
        return True
