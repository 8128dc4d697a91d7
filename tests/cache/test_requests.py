"""Requests over a block table: golden hit rates, and the best that could be."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.optimal import foresee, plain_foreseen, serve_optimally
from kvtune_cache.requests import Requests, serve_all, sums
from kvtune_cache.rules import Rules
from tests.cache.streams import CHAINS, POLICIES, chained, distinct, packed, single, token_hit_rate

CONVERSATION = Path(__file__).parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"


@pytest.fixture(scope="module")
def conversation() -> Requests:
    """The Mooncake conversation trace: 12,031 requests of 182,790 blocks of 512 tokens."""
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    with gzip.open(CONVERSATION, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return packed([row["hash_ids"] for row in rows], [row["input_length"] for row in rows], 512)


def half(requests: Requests) -> int:
    """The first request of the last half."""
    return (len(requests.starts) - 1) // 2


@pytest.mark.parametrize(
    ("rules", "golden"),
    [
        (Rules(Eviction.LRU, 1_828), 0.054554),
        (Rules(Eviction.LRU, 18_279), 0.293933),
        (Rules(Eviction.LRU, 73_116), 0.385327),
        (Rules(Eviction.LRU, 182_790), 0.398113),
        (Rules(Eviction.FIFO, 1_828, tail_first=0, pins=0), 0.053041),
        (Rules(Eviction.FIFO, 18_279, tail_first=0, pins=0), 0.256018),
        (Rules(Eviction.FIFO, 73_116, tail_first=0, pins=0), 0.364717),
    ],
)
def test_golden_values_of_the_conversation_trace(conversation: Requests, rules: Rules, golden: float) -> None:
    assert token_hit_rate(conversation, rules, half(conversation)) == pytest.approx(golden, abs=5e-7)


@pytest.mark.parametrize(
    ("policy", "percents"),
    [
        (Eviction.FIFO, (5.4, 25.6, 36.5)),
        (Eviction.S3FIFO, (6.9, 22.8, 29.7)),
        (Eviction.ARC, (6.9, 31.0, 38.4)),
    ],
)
def test_anchors_of_the_conversation_trace_at_1_10_and_40_percent(
    conversation: Requests, policy: Eviction, percents: tuple[float, ...]
) -> None:
    for capacity, percent in zip((1_828, 18_279, 73_116), percents, strict=True):
        found = token_hit_rate(conversation, Rules(policy, capacity), half(conversation))
        assert 100 * found == pytest.approx(percent, abs=0.051)


@pytest.mark.parametrize(
    ("policy", "golden"),
    [
        (Eviction.LRU, 0.27842),
        (Eviction.FIFO, 0.25583),
        (Eviction.SIEVE, 0.19482),
        (Eviction.S3FIFO, 0.22479),
        (Eviction.ARC, 0.28425),
    ],
)
def test_one_block_after_the_other_all_policies_hit_what_libcachesim_hits(
    conversation: Requests, policy: Eviction, golden: float
) -> None:
    flat = single(conversation.blocks)
    assert token_hit_rate(flat, Rules(policy, 18_279)) == pytest.approx(golden, abs=5e-6)


def optimum(requests: Requests, capacity: int) -> list[int]:
    """Hit blocks of each request, with all requests known beforehand."""
    room = plain_foreseen(requests, distinct(requests))
    foresee(requests, room)
    found = [0] * (len(requests.starts) - 1)
    serve_optimally(requests, room, capacity, found)
    return found


@pytest.mark.parametrize(("capacity", "golden"), [(1_828, 0.256757)])
def test_golden_value_of_the_optimum_on_the_conversation_trace(
    conversation: Requests, capacity: int, golden: float
) -> None:
    total = sums(conversation, optimum(conversation, capacity), half(conversation))
    assert total.hit_tokens / total.tokens == pytest.approx(golden, abs=5e-7)


@given(POLICIES, st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(1, 8))
def test_law_no_policy_hits_more_single_blocks_than_the_optimum(
    policy: Eviction, stream: list[int], capacity: int
) -> None:
    requests = packed([[block] for block in stream])
    found = [0] * len(stream)
    serve_all(plain_cache(distinct(requests)), Rules(int(policy), capacity), requests, found)
    assert sum(found) <= sum(optimum(requests, capacity))


@given(CHAINS, st.integers(1, 14))
def test_law_with_room_for_all_the_optimum_hits_all_that_was_seen(
    drawn: list[tuple[int, int]], capacity: int
) -> None:
    requests = packed(chained(drawn))
    blocks = distinct(requests)
    ceiling = [0] * (len(requests.starts) - 1)
    serve_all(plain_cache(blocks), Rules(int(Eviction.LRU), blocks), requests, ceiling)
    assert optimum(requests, blocks) == ceiling
    assert all(few <= most for few, most in zip(optimum(requests, capacity), ceiling, strict=True))


def test_sums_count_only_from_the_first_request_on() -> None:
    requests = packed([[1, 2], [1, 2, 3]], tokens=[30, 40], block_tokens=16)
    total = sums(requests, [0, 2], 1)
    assert (total.blocks, total.hit_blocks, total.tokens, total.hit_tokens) == (3, 2, 40, 32)
