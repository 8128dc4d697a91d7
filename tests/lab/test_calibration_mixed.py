"""The demo's traffic (workload `mixed`) under the demo's prices: start, best, corner and a bad candidate.

One agent at 5 requests/s, seed 1, 600 s of warm-up and 1,200 s measured, under the prices of
examples/chat.yaml. This repeats the heart of what the demo tells (docs/demo.md) without its processes.
"""

from itertools import pairwise, takewhile

import pytest

from kvtune_cache.constants import H100_LLAMA8B
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.generator import generate
from kvtune_lab.grid import GridPoint, Study, evaluate
from kvtune_lab.traffic import Request
from kvtune_lab.workload import MIXED_WORKLOAD
from kvtune_tuner.effect import Prices

PRICES = Prices(memory=0.1, eviction_pass=0.2, bytes_down=0.25)
STUDY = Study(constants=H100_LLAMA8B, prices=PRICES, measure_from_s=600.0)
BLOCKS_PER_GIB = 64
SD_OF_A_DELTA = 0.024
"""Of Y, in the simulated demo (M = 120 s)."""


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    source = generate(requests_per_second=5.0, seed=1, kinds=MIXED_WORKLOAD)
    return list(takewhile(lambda request: request.arrival_s < 1800.0, source))


def served(
    requests: list[Request], ttl: float, host_gib: float, ratio: float, policy: str, threshold: int = 1
) -> GridPoint:
    settings = CacheSettings(
        ttl_seconds=ttl,
        eviction_ratio=ratio,
        host_blocks=int(host_gib * BLOCKS_PER_GIB),
        policy=policy,
        store_threshold=threshold,
    )
    return evaluate([requests], settings, STUDY)


def test_a_share_of_the_requests_is_asked_once_and_has_about_24_blocks_as_all_have(
    requests: list[Request],
) -> None:
    documents = [request for request in requests if request.blocks[0] == len(MIXED_WORKLOAD) - 1 << 8]
    assert len(documents) / len(requests) == pytest.approx(0.15, abs=0.02)
    assert len({request.session for request in documents}) == len(documents)
    for some in (documents, requests):
        assert sum(len(r.blocks) for r in some) / len(some) == pytest.approx(24, abs=2)


def test_the_start_has_less_than_half_of_the_best_and_the_corner_is_worse_than_the_start(
    requests: list[Request],
) -> None:
    start = served(requests, 30, 57, 0.3, "FIFO")
    best = served(requests, 300, 114, 0.089, "LRU", 2)
    corner = served(requests, 300, 912, 0.05, "FIFO")
    assert 0 < start.objective < best.objective / 2
    assert corner.objective < start.objective
    assert best.objective - start.objective > 10 * SD_OF_A_DELTA
    assert start.hit_rate == pytest.approx(0.35, abs=0.06)
    assert best.hit_rate == pytest.approx(0.6, abs=0.06)
    assert start.utilisation == pytest.approx(0.65, abs=0.1)


def test_the_objective_falls_on_both_sides_of_the_best_host_tier(requests: list[Request]) -> None:
    by_host = [served(requests, 300, gib, 0.089, "LRU", 2).objective for gib in (28.5, 114, 456)]
    assert by_host[1] > max(by_host[0], by_host[2]) + 4 * SD_OF_A_DELTA


def test_a_ttl_and_a_size_win_then_a_policy_and_then_a_threshold(requests: list[Request]) -> None:
    """The steps of the demo, each by about an sd of a Delta at least."""
    steps = (
        served(requests, 30, 57, 0.3, "FIFO"),
        served(requests, 101, 114, 0.089, "FIFO"),
        served(requests, 300, 114, 0.089, "ReuseAware"),
        served(requests, 300, 114, 0.089, "ReuseAware", 2),
    )
    gains = [after.objective - before.objective for before, after in pairwise(steps)]
    assert min(gains) > SD_OF_A_DELTA, gains
    assert [step.objective for step in steps] == pytest.approx([0.084, 0.267, 0.362, 0.425], abs=0.03)
    assert steps[2].hit_rate - served(requests, 300, 114, 0.089, "FIFO").hit_rate > 0.1


def test_a_policy_has_nothing_to_choose_where_the_ttl_empties_the_tier(requests: list[Request]) -> None:
    fifo, other = (served(requests, 60, 114, 0.089, name) for name in ("FIFO", "LRU"))
    assert fifo.passes_per_minute == other.passes_per_minute == 0
    assert fifo.objective == pytest.approx(other.objective)


def test_a_quarter_of_the_host_tier_is_a_disaster_a_breaker_can_see(requests: list[Request]) -> None:
    good, bad = (served(requests, 300, gib, 0.089, "LRU", 2) for gib in (114, 28.5))
    assert good.share_within_limit - bad.share_within_limit > 0.25
    assert bad.utilisation < 0.95
