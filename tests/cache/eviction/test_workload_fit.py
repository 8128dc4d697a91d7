"""What WorkloadAware learns of a class."""

import random

import pytest

from kvtune_cache.eviction.queues import QUEUES
from kvtune_cache.eviction.workload_fit import (
    LEARNED,
    POOR,
    RATE,
    SHARE,
    Fit,
    forget_access,
    is_sampled,
    learn,
    p_reuse,
    plain_fit,
)
from kvtune_cache.eviction.workload_rules import WorkloadRules

RULES = WorkloadRules(sampled_of=1)
SETTINGS = RULES.settings()


def fed(intervals: list[float | None], gap: float = 0.5, k: int = 3) -> Fit:
    """A fit of accesses to fresh blocks, each reused once after its interval (by another class) or never."""
    accesses = sorted(
        [(i * gap, i, k) for i in range(len(intervals))]
        + [(i * gap + wait, i, k + 1) for i, wait in enumerate(intervals) if wait is not None]
    )
    fit = plain_fit(len(intervals), SETTINGS)
    for now, x, which in accesses:
        learn(fit, SETTINGS, x, which, now)
    return fit


def learned(fit: Fit, field: int, k: int = 3) -> float:
    return fit.learned[k * LEARNED + field]


def test_share_and_rate_of_an_exponential_are_found() -> None:
    rng = random.Random(3)
    fit = fed([rng.expovariate(0.05) if rng.random() < 0.6 else None for _ in range(6_000)])
    assert learned(fit, SHARE) == pytest.approx(0.6, abs=0.03)
    assert learned(fit, RATE) == pytest.approx(0.05, rel=0.08)
    assert learned(fit, POOR) == 0.0


def test_a_poor_fit_gives_way_to_the_histogram() -> None:
    rng = random.Random(4)
    fit = fed([rng.choice([1.2, 200.0]) for _ in range(6_000)])
    assert learned(fit, POOR) == 1.0
    assert p_reuse(fit, 3, 10.0, 50.0) < 0.02, "nothing comes back between the two"
    assert p_reuse(fit, 3, 150.0, 130.0) > 0.9, "and then all of it does"


def test_what_is_not_reused_in_the_horizon_is_not_reused() -> None:
    fit = fed([RULES.horizon_seconds + 100.0] * 4_000)
    assert learned(fit, SHARE) < 0.02


def test_at_the_start_short_intervals_do_not_count_before_long_ones() -> None:
    fit = fed([5.0 if i % 2 else None for i in range(400)])
    assert learned(fit, SHARE) == RULES.reuse_share, "200 s have passed, and the horizon is longer"


def test_a_number_that_is_given_to_another_block_was_not_reused() -> None:
    fit = plain_fit(1, SETTINGS)
    for turn in range(2_000):
        learn(fit, SETTINGS, 0, 3, float(turn))
        forget_access(fit, 0)
    assert learned(fit, SHARE) < 0.02


def test_a_full_ring_shortens_the_horizon_and_stays_sound() -> None:
    fit = plain_fit(4, SETTINGS)
    room = len(fit.ring_blocks)
    for i in range(10 * room):
        learn(fit, SETTINGS, i % 4, 3, i * 1e-3)
    assert fit.ring[1] == room
    assert learned(fit, SHARE) > 0.9


def test_probabilities_are_from_nothing_to_one_and_fall_with_age() -> None:
    rng = random.Random(5)
    fit = fed([rng.expovariate(0.02) if rng.random() < 0.5 else None for _ in range(3_000)])
    for k in range(QUEUES):
        chances = [p_reuse(fit, k, 2.0**i, 60.0) for i in range(-3, 14)]
        assert all(0.0 <= p <= 1.0 for p in chances)
    chances = [p_reuse(fit, 3, 2.0**i, 60.0) for i in range(-3, 14)]
    assert chances == sorted(chances, reverse=True)


def test_one_block_of_sixteen_is_sampled() -> None:
    settings = WorkloadRules(sampled_of=16).settings()
    sampled = sum(is_sampled(settings, x) for x in range(160_000))
    assert sampled == pytest.approx(10_000, rel=0.1)
    assert all(is_sampled(SETTINGS, x) for x in range(100))
