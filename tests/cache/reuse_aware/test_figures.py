"""What ReuseAware reaches: on generated streams against LRU, and on the traces where they are at hand.

Compiled, which gives the same as the plain functions: that is tested here, too.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import LRU, REUSE_AWARE
from kvtune_cache.requests import Requests, serve_all
from kvtune_cache.rules import Rules
from kvtune_lab.compiled import as_arrays, compiled
from kvtune_lab.readers.load import load
from tests.cache.reuse_aware.states import sessions
from tests.cache.streams import distinct

TRACES = Path(__file__).parents[4] / "shared/traces"

TARGETS = {
    "mooncake_conversation_trace.jsonl.gz": {0.01: 11.5, 0.02: 16.0, 0.05: 24.5, 0.10: 31.5},
    "mooncake_synthetic_trace.jsonl.gz": {0.01: 7.5, 0.10: 42.0, 0.40: 80.0},
    "agentic_dev_requests.jsonl.gz": {0.002: 32.0, 0.005: 56.5, 0.01: 77.5},
    "ragpulse_0_trace.jsonl.gz": {20: 31.0},
}
"""Capacities as shares of the distinct blocks or in blocks, and the hit rate to reach there, per cent of the
tokens of the last half. Of agentic cache.md asks for 23.3, 50.6 and 75.6."""


def served(requests: Requests, policy: int, capacity: int) -> list[int]:
    """How many blocks each request hit, compiled."""
    found = np.zeros(len(requests.starts) - 1, np.int32)
    state = as_arrays(plain_cache(int(np.max(requests.blocks)) + 1, policy))
    compiled(serve_all, policy=policy)(state, Rules(policy, capacity), as_arrays(requests), found)
    return [int(hits) for hits in found]


def last_half(requests: Requests, policy: int, capacity: int) -> float:
    """The hit rate of the last half of the requests, per cent of their tokens."""
    found = served(requests, policy, capacity)
    before = np.concatenate(([0], np.cumsum(requests.tokens, dtype=np.int64)))
    starts = np.asarray(requests.starts)
    middle = len(found) // 2
    hits = before[starts[middle:-1] + found[middle:]] - before[starts[middle:-1]]
    return float(100 * hits.sum() / (before[-1] - before[starts[middle]]))


def blocks_of(requests: Requests, share: float) -> int:
    """A capacity in blocks, of one in blocks or as a share of the distinct ones."""
    return round(share * (int(np.max(requests.blocks)) + 1)) if share < 1 else int(share)


def test_compiled_and_plain_give_the_same() -> None:
    requests = sessions(3, 1500, lambda rng, _, style: rng.random() < 0.5 + 0.3 * style)
    found = [0] * 1500
    serve_all(plain_cache(distinct(requests), REUSE_AWARE), Rules(REUSE_AWARE, 300), requests, found)
    assert served(requests, REUSE_AWARE, 300) == found


def steady(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < (0.7 if style else 0.1)


def drifting(rng: random.Random, number: int, style: int) -> bool:
    drift = number / 8000
    return rng.random() < 0.8 * (drift if style else 1 - drift)


def flipping(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < (0.8 if (number < 4000) == bool(style) else 0.05)


def alike(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < 0.5


def once(rng: random.Random, number: int, style: int) -> bool:
    return False


@cache
def stream(returns: Callable[[random.Random, int, int], bool], length: int) -> Requests:
    return sessions(11, 8000, returns, length=length)


@pytest.mark.parametrize("capacity", [150, 400, 1_000, 4_000])
@pytest.mark.parametrize("length", [3, 12])
@pytest.mark.parametrize("returns", [steady, drifting, flipping, alike, once])
def test_it_is_never_more_than_half_a_point_under_lru(
    returns: Callable[[random.Random, int, int], bool], length: int, capacity: int
) -> None:
    requests = stream(returns, length)
    ours, lru = (last_half(requests, policy, capacity) for policy in (REUSE_AWARE, LRU))
    assert ours >= lru - 0.5


def test_a_class_that_was_never_seen_is_kept_as_lru_keeps_it() -> None:
    def short_only(rng: random.Random, number: int, style: int) -> bool:
        return rng.random() < (0.0 if number < 4000 else 0.7 * style)

    requests = sessions(12, 8000, short_only)
    for capacity in (400, 1_000):
        ours, lru = (
            sum(served(requests, policy, capacity)[4000:]) / (len(requests.blocks) - requests.starts[4000])
            for policy in (REUSE_AWARE, LRU)
        )
        assert ours >= lru - 0.005


@cache
def trace(name: str) -> Requests:
    if not (TRACES / name).exists():
        pytest.skip(f"{name} is not beside this checkout (../shared/traces)")
    return load(TRACES / name).requests


@pytest.mark.parametrize(("name", "share"), [(name, share) for name in TARGETS for share in TARGETS[name]])
def test_it_reaches_its_targets_on_the_traces(name: str, share: float) -> None:
    requests = trace(name)._replace(kinds=np.zeros(len(trace(name).times), np.uint8))
    assert last_half(requests, REUSE_AWARE, blocks_of(requests, share)) >= TARGETS[name][share]


def test_it_reaches_its_target_with_stop_reasons() -> None:
    requests = trace("agentic_dev_requests.jsonl.gz")
    assert last_half(requests, REUSE_AWARE, blocks_of(requests, 0.01)) >= 79.0
