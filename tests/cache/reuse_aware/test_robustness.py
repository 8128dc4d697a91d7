"""ReuseAware is never more than half a point under LRU: the quick ones of the rivals, compiled."""

import pytest

from kvtune_cache.eviction.names import LRU, REUSE_AWARE
from tests.cache.reuse_aware.rivals import STREAMS, capacities
from tests.cache.reuse_aware.test_figures import last_half

QUICK = (
    "return with .2 after 20 s",
    "return with .5 after 5 s",
    "return with .5 after 20 s",
    "return after up to 120 s",
    "return by a Pareto law",
    "requests of few blocks",
    "returns that fork",
    "bursts",
    "styles swap once",
    "styles drift",
    "none returns",
    "Zipf 1.0, moving on",
    "returns slow down",
    "returns speed up",
    "a loop, then sessions",
)


@pytest.mark.parametrize("name", QUICK)
def test_it_is_at_most_half_a_point_under_lru(name: str) -> None:
    requests = STREAMS[name]()
    for capacity in capacities(requests, (0.6, 0.9), lambda size: last_half(requests, LRU, size)):
        ours, lru = (last_half(requests, policy, capacity) for policy in (REUSE_AWARE, LRU))
        assert ours >= lru - 0.5, capacity
