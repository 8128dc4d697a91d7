"""ReuseAware on parts of the published traces: from cold in the middle, and with kinds nobody has seen."""

import numpy as np
import pytest

from kvtune_cache.eviction.names import LRU, REUSE_AWARE
from kvtune_cache.requests import Requests
from tests.cache.reuse_aware.test_figures import TARGETS, blocks_of, last_half, trace

CONVERSATION = "mooncake_conversation_trace.jsonl.gz"


def second_half(requests: Requests) -> Requests:
    """The requests from the middle on; block numbers stay as they are."""
    middle = (len(requests.starts) - 1) // 2
    first = int(requests.starts[middle])
    parts = (requests.blocks[first:], requests.tokens[first:])
    rest = (part[middle:] for part in (requests.times, requests.outputs, requests.kinds, requests.hints))
    starts = np.asarray(requests.starts[middle:]) - first
    return Requests(starts, *(np.ascontiguousarray(part) for part in (*parts, *rest)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "share"), [(name, share) for name in TARGETS for share in TARGETS[name]])
def test_the_second_half_from_cold_reaches_the_targets_within_three_tenths(name: str, share: float) -> None:
    requests = trace(name)._replace(kinds=np.zeros(len(trace(name).times), np.uint8))
    half = second_half(requests)
    assert last_half(half, REUSE_AWARE, blocks_of(requests, share)) >= TARGETS[name][share] - 0.3


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_kinds_that_appear_late_cost_at_most_half_a_point_to_lru(share: float) -> None:
    requests = trace(CONVERSATION)
    kinds = np.zeros(len(requests.times), np.uint8)
    kinds[len(kinds) // 2 :] = 5
    late = requests._replace(kinds=kinds)  # type: ignore[arg-type]
    capacity = blocks_of(requests, share)
    assert last_half(late, REUSE_AWARE, capacity) >= last_half(late, LRU, capacity) - 0.5
