"""The tiers of one agent's cache over numbered blocks, as functions that run on lists and compiled.

Called by tiers.py, which numbers the blocks of endless requests, and by the capacity planner, which has all
of a trace numbered. `tiers` says what is meant. A tier of capacity 0 holds nothing; so an engine without a
disk has one of capacity 0.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kvtune_cache.blocks import GONE, RESIDENT, Bytes, Integers
from kvtune_cache.cache import Cache
from kvtune_cache.eviction.names import LRU
from kvtune_cache.lru_run import touch_by_lru
from kvtune_cache.requests import Requests, cache_for
from kvtune_cache.rules import Rules
from kvtune_cache.signals import HINT, KIND, OUTPUT_TOKENS
from kvtune_cache.tier import open_tier, take_from, tell, touch_held, touch_tier

ON_DEVICE: Final = 1
ON_HOST: Final = 2
ON_DISK: Final = 3
"""Where a block was hit."""

NO_DISK: Final = Rules(LRU, 0)


class Tiers(NamedTuple):
    """The caches of all tiers, for the same block numbers; one that is not there may have a single one."""

    device: Cache
    host: Cache
    disk: Cache
    held: Integers
    """Room for the blocks of one request."""


class TierRules(NamedTuple):
    """The rules of all tiers; the device's are those of LRU with neither TTL, passes nor threshold."""

    device: Rules
    host: Rules
    disk: Rules
    demotes: int = 0
    """1: the host takes in what the device lets go; 0: all that the device takes in."""


class HostWork(NamedTuple):
    """What one request did to the host tier (a tuple, because it is made for every request)."""

    inserted: int
    passes: int
    pass_blocks: int


class Processed(NamedTuple):
    """What one request hit, in blocks, and what it did to the host tier (a tuple: made for every request).

    `host_hit_blocks` are those below the device, `disk_hit_blocks` those of them on the disk.
    """

    hit_blocks: int
    host_hit_blocks: int
    last_hit_on_host: bool
    host: HostWork
    disk_hit_blocks: int = 0


def caches_for(blocks: int, rules: TierRules) -> Iterator[Cache]:
    """Make an empty cache of lists for each tier, from the top, one at a time, for numbers below `blocks`."""
    yield cache_for(rules.device, blocks)
    yield cache_for(rules.host, blocks)
    yield cache_for(rules.disk, blocks if rules.disk.capacity > 0 else 1)


def plain_tiers(blocks: int, rules: TierRules, longest: int) -> Tiers:
    """Make empty tiers of lists for block numbers below `blocks` and requests of up to `longest` of them."""
    device, host, disk = caches_for(blocks, rules)
    return Tiers(device, host, disk, [0] * longest)


def serve_tiers(tiers: Tiers, rules: TierRules, requests: Requests, places: Bytes) -> None:
    """Serve all requests in their order.

    `places` has room for a number of each block of all requests: where it was hit, 0 for one that was not.
    """
    blocks = requests.blocks
    for r in range(len(requests.starts) - 1):
        start, stop = requests.starts[r], requests.starts[r + 1]
        open_tiers(tiers, rules, requests.times[r])
        look_up(tiers, rules, blocks, start, stop, places)
        for request in (tiers.host.request, tiers.disk.request):
            request[OUTPUT_TOKENS] = requests.outputs[r]
            request[KIND] = requests.kinds[r]
            request[HINT] = requests.hints[r]
        tell_tiers(tiers, rules, blocks, start, stop)
        store(tiers, rules, blocks, start, stop)


def open_tiers(tiers: Tiers, rules: TierRules, now: float) -> None:
    """Begin a request, or a time without one: what is idle for too long goes."""
    tiers.device.table.state[GONE] = 0
    open_tier(tiers.host, rules.host, now)
    if rules.disk.capacity > 0:
        open_tier(tiers.disk, rules.disk, now)


def look_up(tiers: Tiers, rules: TierRules, blocks: Integers, start: int, stop: int, places: Bytes) -> int:
    """Count the blocks of [start, stop) up to the first that is in no tier; `places` says where each is."""
    on_device, on_host = tiers.device.table.where, tiers.host.table.where
    on_disk = tiers.disk.table.where if rules.disk.capacity > 0 else on_host
    i = start
    for x in blocks[start:stop]:
        if on_device[x] > RESIDENT:
            places[i] = ON_DEVICE
        elif on_host[x] > RESIDENT:
            places[i] = ON_HOST
        elif on_disk[x] > RESIDENT:
            places[i] = ON_DISK
        else:
            break
        i += 1
    return i - start


def tell_tiers(tiers: Tiers, rules: TierRules, blocks: Integers, start: int, stop: int) -> None:
    """Tell the policies below the device of the request; each cache has the signals of it."""
    tell(tiers.host, rules.host, blocks, start, stop)
    if rules.disk.capacity > 0:
        tell(tiers.disk, rules.disk, blocks, start, stop)


def store(tiers: Tiers, rules: TierRules, blocks: Integers, start: int, stop: int) -> None:
    """Touch or take in the blocks of a request, each once, and let what is pushed out go down."""
    host, disk = tiers.host, tiers.disk
    if rules.demotes == 0:
        # first, so that the device is as it was where a policy raises, and the request can be served again
        touch_tier(host, rules.host, blocks, start, stop)
    touch_by_lru(tiers.device, rules.device, blocks[start:stop])
    if rules.demotes != 0:
        touch_held(host, rules.host, blocks, start, stop, tiers.held)
        take_from(tiers.device, host, rules.host)
    if rules.disk.capacity > 0:
        touch_held(disk, rules.disk, blocks, start, stop, tiers.held)
        take_from(host, disk, rules.disk)
