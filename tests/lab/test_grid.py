"""The grid of static configurations."""

from dataclasses import replace
from itertools import takewhile

import pytest

from kvtune_cache.constants import H100_LLAMA8B
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.generator import generate
from kvtune_lab.grid import COARSE_POINTS, FINE_POINTS, Bounds, Study, evaluate, search
from kvtune_lab.traffic import Request
from kvtune_tuner.effect import Prices

STUDY = Study(constants=H100_LLAMA8B, prices=Prices(memory=0.05, eviction_pass=1.0), measure_from_s=60.0)
BOUNDS = Bounds(ttl_seconds=(30.0, 600.0), eviction_ratio=(0.05, 0.3), host_blocks=(896, 58_368))
START = CacheSettings(ttl_seconds=30.0, eviction_ratio=0.3, host_blocks=3_648)


@pytest.fixture(scope="module")
def traffic() -> list[list[Request]]:
    return [
        list(takewhile(lambda r: r.arrival_s < 180.0, generate(requests_per_second=2.0, seed=seed)))
        for seed in (1, 2)
    ]


def test_a_point_is_the_mean_over_the_agents(traffic: list[list[Request]]) -> None:
    both = evaluate(traffic, START, STUDY)
    alone = [evaluate([requests], START, STUDY) for requests in traffic]
    assert both.objective == pytest.approx(sum(point.objective for point in alone) / 2)
    assert both.hit_rate == pytest.approx(sum(point.hit_rate for point in alone) / 2)


def test_the_objective_charges_the_memory_that_is_configured(traffic: list[list[Request]]) -> None:
    point = evaluate(traffic, START, STUDY)
    assert point.objective == pytest.approx(point.hit_rate - 0.01 * (0.05 * 57 + point.passes_per_minute))


def test_only_what_follows_the_warm_up_counts(traffic: list[list[Request]]) -> None:
    cold = evaluate(traffic, START, replace(STUDY, measure_from_s=0.0))
    warm = evaluate(traffic, START, STUDY)
    assert warm.hit_rate > cold.hit_rate


def test_the_search_goes_from_coarse_to_fine_and_two_processes_agree_with_one(
    traffic: list[list[Request]],
) -> None:
    seen: list[tuple[int, int]] = []
    few = [[request for request in traffic[0] if request.arrival_s < 90.0]]
    one = search(few, BOUNDS, STUDY, rounds=2, processes=1, progress=lambda *at: seen.append(at))
    two = search(few, BOUNDS, STUDY, rounds=2, processes=2)
    assert one == two
    assert one.best == max(one.points, key=lambda point: point.objective)
    assert COARSE_POINTS < len(one.points) <= COARSE_POINTS + FINE_POINTS
    assert seen == [(i + 1, COARSE_POINTS + FINE_POINTS) for i in range(len(one.points))]
    for point in one.points:
        settings = point.settings
        assert BOUNDS.ttl_seconds[0] <= settings.ttl_seconds <= BOUNDS.ttl_seconds[1]
        assert BOUNDS.eviction_ratio[0] <= settings.eviction_ratio <= BOUNDS.eviction_ratio[1]
        assert BOUNDS.host_blocks[0] <= settings.host_blocks <= BOUNDS.host_blocks[1]


def test_traffic_that_ends_with_the_warm_up_is_refused(traffic: list[list[Request]]) -> None:
    with pytest.raises(ValueError, match=r"an agent has no request after 5000\.0 s"):
        evaluate(traffic, START, replace(STUDY, measure_from_s=5000.0))
    with pytest.raises(ValueError, match="traffic: no agent"):
        evaluate([], START, STUDY)


def test_a_limit_between_two_buckets_is_refused() -> None:
    with pytest.raises(ValueError, match=r"limit_seconds: 0\.3 is no bucket bound"):
        replace(STUDY, limit_seconds=0.3)


def test_empty_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ttl_seconds: 60\.0\.\.30\.0 is not a range"):
        replace(BOUNDS, ttl_seconds=(60.0, 30.0))
    with pytest.raises(ValueError, match="rounds: 0 is less than 1"):
        search([], BOUNDS, STUDY, rounds=0)
