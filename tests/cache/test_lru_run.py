"""LRU for whole requests at once: all the same as block by block."""

from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.lru_run import is_lru_run, serve_all_by_lru
from kvtune_cache.requests import cache_for, serve_all
from kvtune_cache.rules import Rules
from tests.cache.streams import CHAINS, assert_sound, chained, distinct, packed

LRU = Rules(int(Eviction.LRU), 9)
RULES = st.tuples(st.integers(1, 30), st.sampled_from([float("inf"), 1.5, 7.0]), st.integers(0, 4)).map(
    lambda drawn: LRU._replace(capacity=drawn[0], ttl_seconds=drawn[1], pass_blocks=drawn[2])
)


@given(CHAINS, RULES)
def test_a_trace_served_by_runs_ends_as_served_block_by_block(
    drawn: list[tuple[int, int]], rules: Rules
) -> None:
    requests = packed(chained(drawn))
    count = len(requests.starts) - 1
    one, other = (cache_for(rules, distinct(requests)) for _ in range(2))
    found, found_by_runs = [0] * count, [0] * count
    gone = serve_all(one, rules, requests, found)
    assert is_lru_run(rules)
    assert serve_all_by_lru(other, rules, requests, found_by_runs) == gone
    assert found_by_runs == found
    assert other.counts == one.counts
    assert other.left == one.left
    assert other.recency.last == one.recency.last
    assert (other.table.before[-4:], other.table.where) == (one.table.before[-4:], one.table.where)
    assert_sound(other.table)


def test_other_rules_are_none_of_its() -> None:
    others = ({"policy": int(Eviction.FIFO)}, {"tail_first": 0}, {"pins": 0}, {"store_threshold": 2})
    assert not any(is_lru_run(LRU._replace(**other)) for other in others)
