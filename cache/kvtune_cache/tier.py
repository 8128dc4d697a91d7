"""One tier of an engine, as functions of its cache and its rules. They run on lists and compiled.

Called by stack.py and level.py. LRU without a threshold goes the way of lru_run.py, which gives the same in
fewer steps; everything else that of keeping.py.
"""

from kvtune_cache.blocks import GONE, RESIDENT, Integers, prefix
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.counts import PRESSURE
from kvtune_cache.eviction.names import ARC, LRU
from kvtune_cache.eviction.policy import begin
from kvtune_cache.keeping import count_asked, keep, open_request, take_down, touch
from kvtune_cache.lru_run import open_by_lru, touch_by_lru
from kvtune_cache.rules import Rules
from kvtune_cache.signals import LENGTH, START


def cache_below(blocks: int, policy: int) -> Cache:
    """Make an empty cache of lists for a tier below the device, whose rules may change."""
    return plain_cache(blocks, policy, recency=True, asked=True)


def open_tier(cache: Cache, rules: Rules, now: float) -> None:
    """Begin a request, or a time without one: what is idle for too long goes."""
    policy = rules.policy
    if policy == LRU:
        open_by_lru(cache, rules, now)
    else:
        open_request(cache, rules, now)


def tell(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int) -> None:
    """Tell the policy of the request that has been opened; the signals of it alone are filled in."""
    policy = rules.policy
    if policy > ARC:
        cache.request[START] = start
        cache.request[LENGTH] = stop - start
        begin(policy, cache, blocks, start, stop)


def touch_tier(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int) -> None:
    """Touch or take in the blocks [start, stop) of a request, each once."""
    policy = rules.policy
    if policy == LRU:
        if rules.store_threshold > 1:
            _touch(cache, rules, blocks, start, stop)
        else:
            touch_by_lru(cache, rules, blocks[start:stop])
    else:
        _touch(cache, rules, blocks, start, stop)


def _touch(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int) -> None:
    found = prefix(cache.table, blocks, start, stop)
    touch(cache, rules, blocks, start, stop, found)


def touch_held(cache: Cache, rules: Rules, blocks: Integers, start: int, stop: int, held: Integers) -> None:
    """Touch those blocks of a request that are here; `held` has room for them. All of them are asked for."""
    count_asked(cache, rules, blocks, start, stop)
    where, count = cache.table.where, 0
    for i in range(start, stop):
        x = blocks[i]
        if where[x] > RESIDENT:
            held[count] = x
            count += 1
    keep(cache, rules, held, 0, count, count)


def take_from(above: Cache, cache: Cache, rules: Rules) -> None:
    """Take in what the tier above has let go for this request because of pressure."""
    if rules.capacity == 0:
        return
    table = above.table
    for i in range(table.state[GONE]):
        x = table.gone[i]
        if table.where[x] <= RESIDENT and above.left[x] == PRESSURE:
            take_down(cache, rules, x)
