"""One tier of an engine: its blocks on lists with the rules in force, which may change while it runs.

Called by tiers.py. A level of capacity 0 holds nothing.
"""

from collections.abc import Mapping, Sequence

from kvtune_cache.asked import Asked
from kvtune_cache.blocks import Longs, resident
from kvtune_cache.cache import Cache
from kvtune_cache.counts import LEFT
from kvtune_cache.eviction.names import ARC, REUSE_AWARE
from kvtune_cache.eviction.policy import forget
from kvtune_cache.keeping import expire, shrink
from kvtune_cache.recent import Recent
from kvtune_cache.reuse_aware.persistence import learned, restore
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.rules import Rules
from kvtune_cache.switching import as_cache, as_recent, by_last_touch, enlarged, switched
from kvtune_cache.tier import open_tier


class Level:
    """Its blocks are in `recent`, by ids, where that is enough, else in a cache, by their caller's numbers.

    What ReuseAware has learned is kept while another policy runs: it begins with that when it runs again.
    """

    __slots__ = ("_asked", "_cache", "_lessons", "_remembers", "recent", "rules")

    def __init__(self, rules: Rules, *, remembers: bool) -> None:
        """Start empty, by ids; one that remembers counts what has left and is wanted again."""
        self.rules = rules
        self._remembers = remembers
        self._asked = Asked()
        self._lessons: Mapping[str, object] | None = None
        self._cache: Cache | None = None
        self.recent: Recent | None = Recent(remembers=remembers)

    @property
    def cache(self) -> Cache:
        """Give the cache; one made to be looked at where blocks are by ids."""
        if self._cache is not None:
            return self._cache
        assert self.recent is not None, "it has one or the other"
        ids = {block: x for x, block in enumerate(self.recent.entries)}
        return as_cache(self.recent, self.rules.policy, ids, len(ids) + 1)

    @property
    def counts(self) -> Longs:
        """Give what was counted."""
        return self.recent.counts if self.recent is not None else self.cache.counts

    def __len__(self) -> int:
        """Count the resident blocks."""
        return len(self.recent.entries) if self.recent is not None else resident(self.cache.table)

    def number(self, ids: Mapping[int, int], room: int) -> None:
        """Move into a cache for numbers below `room`; `ids` has those of all blocks."""
        assert self.recent is not None, "it is by numbers already"
        self._cache, self.recent = as_cache(self.recent, self.rules.policy, ids, room), None

    def unnumber(self, owners: Sequence[int]) -> None:
        """Go back to ids; `owners` has the id of each number."""
        self.recent, self._cache = as_recent(self.cache, owners, remembers=self._remembers), None

    def reconfigure(self, rules: Rules, now_s: float) -> None:
        """Take new rules; what the old ones had ended stays ended, and no other block is lost but by size.

        A policy that is left is not asked again: it may be left because it has failed.
        """
        if self.recent is not None:
            assert rules.policy == self.rules.policy, "ids are for LRU"
            self.recent.expire(self.rules.ttl_seconds, now_s)
            self.recent.expire(rules.ttl_seconds, now_s)
            self.recent.shrink(rules.capacity)
            self.rules = rules
            return
        if rules.policy != self.rules.policy:
            self._lessons = self._kept_lessons()
            self._cache = self._switched(rules.policy)
            self.rules = self.rules._replace(policy=rules.policy)
        open_tier(self.cache, self.rules, now_s)
        self.rules = rules
        expire(self.cache, rules, now_s)
        shrink(self.cache, rules)

    def lessons(self) -> Mapping[str, object] | None:
        """Tell what ReuseAware has learned here, or was taught; None where it never ran."""
        return learned(self.cache.reuse) if self.rules.policy == REUSE_AWARE else self._lessons

    def teach(self, lessons: Mapping[str, object]) -> None:
        """Let ReuseAware begin with what it has told before; an empty tier's only.

        Raises ValueError, naming the field, for what does not fit; nothing is changed then.
        """
        restore(plain_reuse(1), lessons)
        self._lessons = lessons
        if self.rules.policy == REUSE_AWARE:
            restore(self.cache.reuse, lessons)

    def _kept_lessons(self) -> Mapping[str, object] | None:
        try:
            return self.lessons()
        except (ArithmeticError, LookupError, ValueError):  # of a policy that has failed
            return None

    def _switched(self, policy: int) -> Cache:
        try:
            return switched(self.cache, self.rules.policy, policy, self._lessons)
        except ValueError:  # numbers that nobody can have counted, of a policy that has failed
            self._lessons = None
            return switched(self.cache, self.rules.policy, policy)

    def grow(self, room: int) -> None:
        """Make room for block numbers below `room`."""
        self._cache = enlarged(self.cache, self.rules.policy, room)

    def forget(self, numbers: Sequence[int], owners: Sequence[int]) -> None:
        """Let numbers that are neither held nor remembered here stand for blocks that were never seen.

        How often their `owners`, by number, were asked for is known until they are many more; see `recall`.
        """
        cache, policy = self.cache, self.rules.policy
        if self.rules.store_threshold > 1:
            self._asked.note((owners[x], cache.asked[x]) for x in numbers)
        for x in numbers:
            cache.left[x] = 0
            cache.asked[x] = 0
        if policy > ARC:
            for x in numbers:
                forget(policy, cache, x)

    def recall(self, blocks: Sequence[int], numbers: Sequence[int]) -> None:
        """Go on counting how often blocks are asked for, of which some have got a number."""
        if len(self._asked) > 0:
            for block, x in zip(blocks, numbers, strict=True):
                count = self._asked.take(block)
                if count > 0:
                    self.cache.asked[x] = count

    def by_last_touch(self) -> list[tuple[int, float]]:
        """List the blocks, by ids or numbers, and the seconds of their last touch, the oldest first."""
        if self.recent is not None:
            return list(self.recent.entries.items())
        last = self.cache.recency.last
        return [(x, last[x]) for x in by_last_touch(self.cache, self.rules.policy)]

    def known(self) -> list[int]:
        """List the ids of the blocks that are here or have left and are remembered."""
        assert self.recent is not None, "numbers are not known by ids here"
        return [*self.recent.entries, *self.recent.left()]

    def evicted(self, reason: int) -> int:
        """Count the blocks that have left for a reason."""
        return self.counts[LEFT + reason]
