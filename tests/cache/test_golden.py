"""Golden hit rates: the Mooncake conversation trace where present, and a generated stream everywhere."""

import gzip
import json
import random
from pathlib import Path

import pytest

from kvtune_cache.tiers import CacheSettings, TieredCache

CONVERSATION = Path(__file__).parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"
NO_HOST = CacheSettings(ttl_seconds=1.0, eviction_ratio=0.1, host_blocks=0)


def last_half_token_hit_rate(
    requests: list[tuple[list[int], int]], capacity: int, block_tokens: int
) -> float:
    cache, hit, total = TieredCache(capacity, NO_HOST), 0, 0
    for number, (blocks, tokens) in enumerate(requests):
        done = cache.process(blocks, 0.0)
        if number >= len(requests) // 2:
            total += tokens
            hit += min(done.hit_blocks * block_tokens, tokens)
    return hit / total


@pytest.mark.parametrize(("capacity", "golden"), [(1_828, 0.054554), (18_279, 0.293933), (73_116, 0.385327)])
def test_lru_gives_the_golden_values_of_the_conversation_trace(capacity: int, golden: float) -> None:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    with gzip.open(CONVERSATION, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    requests = [(row["hash_ids"], row["input_length"]) for row in rows]
    assert last_half_token_hit_rate(requests, capacity, 512) == pytest.approx(golden, abs=1e-6)


def generated_sessions(count: int) -> list[tuple[list[int], int]]:
    """Sessions that go on with probability .7, from one seeded generator."""
    rng, fresh = random.Random(7), iter(range(1, 10**9))
    alive: list[list[int]] = []
    requests = []
    for _ in range(count):
        again = alive and rng.random() < 0.7
        blocks = alive.pop(rng.randrange(len(alive))) if again else [0]
        blocks = [*blocks, *(next(fresh) for _ in range(rng.randint(1, 6)))]
        alive.append(blocks)
        requests.append((blocks, len(blocks) * 16 - rng.randrange(16)))
    return requests


@pytest.mark.parametrize(("capacity", "golden"), [(200, 0.101801), (1_000, 0.159568), (4_000, 0.425134)])
def test_lru_gives_the_golden_values_of_generated_sessions(capacity: int, golden: float) -> None:
    assert last_half_token_hit_rate(generated_sessions(3_000), capacity, 16) == pytest.approx(
        golden, abs=1e-6
    )
