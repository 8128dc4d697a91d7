"""One tier of an engine: a cache on lists with the rules in force, which may change while it runs.

Called by tiers.py. Blocks are numbers of its Numbering. A level of capacity 0 holds nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from kvtune_cache.blocks import GONE, RESIDENT, prefix, resident
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.counts import LEFT, PRESSURE
from kvtune_cache.eviction.names import ARC, LRU, REUSE_AWARE
from kvtune_cache.eviction.policy import begin, forget
from kvtune_cache.keeping import expire, open_request, shrink, take_down, touch
from kvtune_cache.lru_run import open_by_lru, touch_by_lru
from kvtune_cache.reuse_aware.persistence import learned, restore
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.rules import Rules
from kvtune_cache.signals import HINT, KIND, LENGTH, OUTPUT_TOKENS, PROMPT_TOKENS, START
from kvtune_cache.switching import by_last_touch, enlarged, switched


class Level:
    """A cache and its rules; `cache` is another one after a switch of policies and after `grow`.

    What ReuseAware has learned is kept while another policy runs: it begins with that when it runs again.
    """

    __slots__ = ("_lessons", "cache", "rules")

    def __init__(self, rules: Rules, room: int) -> None:
        """Start empty, for block numbers below `room`."""
        self.rules = rules
        self._lessons: Mapping[str, object] | None = None
        self.cache = plain_cache(room, rules.policy, recency=True, asked=True)

    def __len__(self) -> int:
        """Count the resident blocks."""
        return resident(self.cache.table)

    def open(self, now_s: float) -> None:
        """Begin a request, or a time without one: what is idle for too long goes."""
        cache, rules = self.cache, self.rules
        if rules.policy == LRU:
            open_by_lru(cache, rules, now_s)
        else:
            open_request(cache, rules, now_s)

    def tell(
        self, numbers: list[int], kind: int, output_tokens: int, prompt_tokens: int, hint: float
    ) -> None:
        """Tell the policy of the request that has been opened."""
        request = self.cache.request
        request[OUTPUT_TOKENS], request[KIND], request[PROMPT_TOKENS] = output_tokens, kind, prompt_tokens
        request[START], request[LENGTH], request[HINT] = 0, len(numbers), hint
        begin(self.rules.policy, self.cache, numbers, 0, len(numbers))

    def touch(self, numbers: list[int]) -> None:
        """Touch or take in the blocks of a request."""
        rules = self.rules
        if rules.policy == LRU and rules.store_threshold == 1:
            touch_by_lru(self.cache, rules, numbers)
        else:
            found = prefix(self.cache.table, numbers, 0, len(numbers))
            touch(self.cache, rules, numbers, 0, len(numbers), found)

    def touch_held(self, numbers: list[int]) -> None:
        """Touch those blocks of a request that are here."""
        where = self.cache.table.where
        held = [x for x in numbers if where[x] > RESIDENT]
        touch(self.cache, self.rules, held, 0, len(held), len(held))

    def let_go(self) -> list[int]:
        """List what this request has pushed out."""
        table, left = self.cache.table, self.cache.left
        gone = table.gone[: table.state[GONE]]
        return [x for x in gone if left[x] == PRESSURE and table.where[x] <= RESIDENT]

    def take_down(self, numbers: Sequence[int]) -> None:
        """Take in what the level above has let go."""
        if self.rules.capacity > 0:
            for x in numbers:
                take_down(self.cache, self.rules, x)

    def reconfigure(self, rules: Rules, now_s: float) -> None:
        """Take new rules; what the old ones had ended stays ended, and no other block is lost but by size.

        A policy that is left is not asked again: it may be left because it has failed.
        """
        if rules.policy != self.rules.policy:
            self._lessons = self.lessons()
            self.cache = self._switched(rules.policy)
            self.rules = self.rules._replace(policy=rules.policy)
        self.open(now_s)
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

    def _switched(self, policy: int) -> Cache:
        try:
            return switched(self.cache, self.rules.policy, policy, self._lessons)
        except ValueError:  # numbers that nobody can have counted, of a policy that has failed
            self._lessons = None
            return switched(self.cache, self.rules.policy, policy)

    def grow(self, room: int) -> None:
        """Make room for block numbers below `room`."""
        self.cache = enlarged(self.cache, self.rules.policy, room)

    def forget(self, numbers: Iterable[int]) -> None:
        """Let numbers that are neither held nor remembered here stand for blocks that were never seen."""
        left, asked, policy = self.cache.left, self.cache.asked, self.rules.policy
        for x in numbers:
            left[x] = 0
            asked[x] = 0
        if policy > ARC:
            for x in numbers:
                forget(policy, self.cache, x)

    def by_last_touch(self) -> list[tuple[int, float]]:
        """List the resident blocks and the seconds of their last touch, the oldest first."""
        last = self.cache.recency.last
        return [(x, last[x]) for x in by_last_touch(self.cache, self.rules.policy)]

    def evicted(self, reason: int) -> int:
        """Count the blocks that have left for a reason."""
        return self.cache.counts[LEFT + reason]
