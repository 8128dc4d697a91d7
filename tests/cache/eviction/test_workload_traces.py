"""Hit rates of WorkloadAware on real traces: better than LRU where classes tell, and the same both ways."""

from pathlib import Path

import numpy as np
import pytest

from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.requests import Requests, cache_for, serve_all, sums
from kvtune_cache.rules import Rules
from kvtune_lab.compiled import as_arrays, compiled
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import as_lists

TRACES = Path(__file__).parents[4] / "shared/traces"
CONVERSATION = TRACES / "mooncake_conversation_trace.jsonl.gz"
POLICY = int(Eviction.WORKLOAD_AWARE)


@pytest.fixture(scope="module")
def conversation() -> Requests:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    return load(CONVERSATION).requests


def last_half(requests: Requests, found: np.ndarray) -> float:
    total = compiled(sums)(requests, found, len(found) // 2)
    return total.hit_tokens / total.tokens


@pytest.mark.parametrize(
    ("capacity", "ours"), [(1_828, 0.103738), (3_656, 0.136171), (9_140, 0.211723), (18_279, 0.297489)]
)
def test_hit_rates_of_the_conversation_trace(conversation: Requests, capacity: int, ours: float) -> None:
    rules = Rules(POLICY, capacity)
    found = np.zeros(len(conversation.starts) - 1, np.int32)
    cache = as_arrays(cache_for(rules, max(conversation.blocks) + 1))
    compiled(serve_all, policy=POLICY)(cache, rules, conversation, found)
    assert last_half(conversation, found) == pytest.approx(ours, abs=1e-6)


def test_it_decides_the_same_on_lists(conversation: Requests) -> None:
    rules = Rules(POLICY, 1_828)
    head = as_lists(conversation)
    requests = Requests(head.starts[:4_001], *head[1:])
    found, arrays = [0] * 4_000, np.zeros(4_000, np.int32)
    blocks = max(head.blocks) + 1
    plain = serve_all(cache_for(rules, blocks), rules, requests, found)
    run = compiled(serve_all, policy=POLICY)
    assert run(as_arrays(cache_for(rules, blocks)), rules, as_arrays(requests), arrays) == plain
    assert arrays.tolist() == found
