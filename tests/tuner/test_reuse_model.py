"""The reuse model agrees with closed forms and with the cache itself, and says what it lacks."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.policy import Prices
from kvtune_api.wire import Report, ReuseAges
from kvtune_cache.constants import H100_LLAMA8B
from kvtune_cache.serving import ServingModel
from kvtune_cache.tiers import CacheSettings
from kvtune_tuner.proposal import NotAvailable
from kvtune_tuner.reuse_model import Prediction, Reuse, pool, predict
from tests.tuner.proposal_cases import (
    CHAT_PRICES,
    exponential_ages,
    made,
    report,
    reuse_ages,
)

SHARE, MEAN_S, RATE = 0.8, 150.0, 120.0
FREE = Prices()


def _exponential(*, device_blocks: int = 0) -> Reuse:
    ages = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=RATE)
    found = pool([report(reuse=ages, device_blocks=device_blocks)])
    assert isinstance(found, Reuse)
    return found


def _predicted(config: CacheConfig, reuse: Reuse, prices: Prices = FREE) -> Prediction:
    found = predict(reuse, prices, config)
    assert isinstance(found, Prediction)
    return found


def _f(age_s: float) -> float:
    return SHARE * -math.expm1(-age_s / MEAN_S)


def _held(age_s: float) -> float:
    return RATE * ((1 - SHARE) * age_s + SHARE * MEAN_S * -math.expm1(-age_s / MEAN_S))


@pytest.mark.parametrize("age_s", [0.5, 1, 7, 60, 150, 599.5, 4000, 20_000])
def test_the_age_at_which_a_tier_is_full_is_the_closed_form_for_exponential_ages(age_s: float) -> None:
    reuse = _exponential()
    found = reuse.age_held(np.array([_held(age_s)]))[0]
    assert found == pytest.approx(age_s, rel=2e-3)
    assert reuse.reused_within(np.array([age_s]))[0] == pytest.approx(_f(age_s), abs=1e-3)


def test_a_ttl_that_ends_before_the_tier_is_full_decides_and_no_pass_runs() -> None:
    then = _predicted(made(60, 0.1, 900), _exponential())
    assert then.hit_rate == pytest.approx(_f(60), abs=1e-3)
    assert then.passes_per_minute == 0
    down_gib = 60 * RATE * (1 - _f(60)) * 16 / 1024
    assert then.bytes_down_gib_per_minute == pytest.approx(down_gib, rel=2e-3)


def test_a_full_tier_decides_and_passes_are_new_blocks_over_blocks_per_pass() -> None:
    age_s, ratio = 100.0, 0.2
    blocks = round(_held(age_s) / (1 - ratio / 2))
    then = _predicted(made(600, ratio, blocks * 16 / 1024), _exponential())
    assert then.hit_rate == pytest.approx(_f(age_s), abs=1e-3)
    per_minute = 60 * RATE * (1 - _f(age_s)) / math.floor(ratio * blocks)
    assert then.passes_per_minute == pytest.approx(per_minute, rel=2e-3)


def test_a_device_tier_that_keeps_blocks_longer_answers_too() -> None:
    reuse = _exponential(device_blocks=round(_held(200)))
    assert _predicted(made(30, 0.3, 57), reuse).hit_rate == pytest.approx(_f(200), abs=1e-3)


def test_the_objective_subtracts_the_policys_prices_in_points() -> None:
    prices = Prices(memory=0.05, eviction_pass=1.0, bytes_down=0.1)
    then = _predicted(made(600, 0.1, 100), _exponential(), prices)
    cost = 0.05 * 100 + 1.0 * then.passes_per_minute + 0.1 * then.bytes_down_gib_per_minute
    assert then.passes_per_minute > 0
    assert then.objective == pytest.approx(then.hit_rate - 0.01 * cost, abs=1e-12)


def test_agents_are_pooled_to_one_average_agent() -> None:
    busy = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=200)
    calm = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=40, bins=70)
    pooled = pool([report("a", reuse=busy), report("b", reuse=calm), report("c")])
    assert isinstance(pooled, Reuse)
    assert pooled.touches_per_second == pytest.approx(120)
    assert pooled.agents == 2
    assert pooled.reused_within(np.array([100.0]))[0] == pytest.approx(_f(100), abs=1e-3)


def test_the_model_agrees_with_the_cache_on_poisson_traffic() -> None:
    """Independent Poisson keys, ten times as many as the tier holds at most, measured after a warm-up."""
    rng = np.random.default_rng(3)
    constants = replace(H100_LLAMA8B, device_blocks=100)
    popularity = 1.0 / np.arange(1, 20_001) ** 0.8
    keys = rng.choice(20_000, size=60_000, p=popularity / popularity.sum())
    arrivals = np.cumsum(rng.exponential(1 / 50, size=60_000))
    settings = CacheSettings(ttl_seconds=1e9, eviction_ratio=0.3, host_blocks=2_000)
    model = ServingModel(constants, settings)
    for i, (key, at) in enumerate(zip(keys.tolist(), arrivals.tolist(), strict=True)):
        if i == 20_000:
            hits = model.totals.host_hit_tokens + model.totals.device_hit_tokens
            passes, started = model.totals.eviction_passes, at
        model.serve(at, [key], constants.block_tokens)
    measured_hit = (model.totals.host_hit_tokens + model.totals.device_hit_tokens - hits) / 40_000 / 128
    measured_passes = (model.totals.eviction_passes - passes) / (arrivals[-1] - started) * 60
    seen = model.reuse.snapshot()
    ages = ReuseAges(
        touches=seen.touches,
        prompt_blocks=seen.prompt_blocks,
        seconds=float(arrivals[-1]),
        counts=tuple(float(count) for count in seen.counts),
    )
    reuse = pool([report(reuse=ages, device_blocks=100)])
    assert isinstance(reuse, Reuse)
    then = _predicted(made(3600, 0.3, 2_000 * 16 / 1024), reuse)
    assert then.hit_rate == pytest.approx(measured_hit, abs=0.015)
    assert then.passes_per_minute == pytest.approx(measured_passes, rel=0.05)


def _unusable() -> dict[str, tuple[Sequence[Report], str]]:
    ages = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=RATE)
    few = ReuseAges(touches=999, prompt_blocks=999, seconds=60, counts=(10,))
    over = ReuseAges(touches=2000, prompt_blocks=2000, seconds=60, counts=(1500, 1500))
    empty = ReuseAges(touches=0, prompt_blocks=0, seconds=1, counts=())
    coarse = replace(ages, bins_per_octave=4)
    blockless = replace(report(reuse=ages), geometry=None)
    return {
        "no agents": ([], "none of 0 agents reports"),
        "no ages": ([report("a"), report("b")], "none of 2 agents reports"),
        "no geometry": ([blockless], "none of 1 agents reports"),
        "empty": ([report(reuse=empty)], "0 touches so far, 1000 are needed"),
        "few": ([report(reuse=few)], "999 touches so far, 1000 are needed"),
        "no prompts": ([report(reuse=replace(ages, prompt_blocks=0))], "are needed"),
        "more re-touches than touches": ([report(reuse=over)], "3000 re-touches of 2000 touches"),
        "other bins": ([report(reuse=ages), report(reuse=coarse)], "different bins"),
        "other sizes": ([report(reuse=ages), report(reuse=ages, device_blocks=3)], "different block"),
    }


@pytest.mark.parametrize("case", _unusable())
def test_what_cannot_be_used_is_not_available_with_the_figure(case: str) -> None:
    reports, said = _unusable()[case]
    found = pool(reports)
    assert isinstance(found, NotAvailable)
    assert said in found.reason


def test_nan_never_enters_reuse_ages() -> None:
    with pytest.raises(ValueError, match="finite number"):
        ReuseAges(touches=10, prompt_blocks=10, seconds=1, counts=(math.nan,))


def test_one_bin_without_any_re_touch_predicts_no_hits() -> None:
    reuse = pool([report(reuse=ReuseAges(touches=5000, prompt_blocks=5000, seconds=50, counts=(0,)))])
    assert isinstance(reuse, Reuse)
    assert _predicted(made(), reuse).hit_rate == 0


def test_only_re_touches_never_fill_a_tier() -> None:
    reuse = pool([report(reuse=ReuseAges(touches=5000, prompt_blocks=5000, seconds=50, counts=(5000,)))])
    assert isinstance(reuse, Reuse)
    then = _predicted(made(), reuse)
    assert then.hit_rate == 1
    assert then.passes_per_minute == 0


def test_a_tier_of_less_than_one_block_holds_nothing() -> None:
    then = _predicted(made(30, 0.3, 1 / 1024), _exponential())
    assert (then.hit_rate, then.passes_per_minute, then.bytes_down_gib_per_minute) == (0, 0, 0)


def test_knobs_outside_the_policy_are_what_all_agents_run() -> None:
    ages = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=RATE)
    alike = pool([report(n, runs=made(60, 0.1, 100), reuse=ages) for n in "ab"])
    assert isinstance(alike, Reuse)
    only_ttl = made(120, None, None)
    assert predict(alike, FREE, only_ttl) == predict(alike, FREE, made(120, 0.1, 100))
    differ = pool([report(n, runs=made(60, 0.1, g), reuse=ages) for n, g in (("a", 100), ("b", 200))])
    assert isinstance(differ, Reuse)
    missing = predict(differ, FREE, only_ttl)
    assert missing == NotAvailable(reason="tiers.hostMemory: not set, and agents report no common value")


def test_an_engine_without_a_ttl_keeps_blocks_until_it_is_full() -> None:
    ages = exponential_ages(share=SHARE, mean_s=MEAN_S, touches_per_s=RATE)
    live = [Knob.EVICTION_RATIO, Knob.HOST_MEMORY]
    found = pool([report(runs=made(None, 0.1, 100), reuse=ages, live=live)])
    assert isinstance(found, Reuse)
    assert predict(found, FREE, made(None, 0.1, 100)) == predict(found, FREE, made(1e6, 0.1, 100))


@given(reuse_ages(), st.floats(0.1, 1e5), st.floats(0.001, 1), st.floats(0.001, 1e6), st.integers(0, 10**7))
def test_predictions_are_finite_and_more_memory_never_hits_less(
    ages: ReuseAges, ttl_s: float, ratio: float, host_gib: float, device_blocks: int
) -> None:
    reuse = pool([report(reuse=ages, device_blocks=device_blocks)])
    if isinstance(reuse, NotAvailable):
        return
    then = _predicted(made(ttl_s, ratio, host_gib), reuse, CHAT_PRICES)
    figures = (then.hit_rate, then.passes_per_minute, then.bytes_down_gib_per_minute, then.objective)
    assert np.all(np.isfinite(figures))
    assert 0 <= then.hit_rate <= 1
    assert min(figures[:3]) >= -1e-9
    larger = _predicted(made(ttl_s * 2, ratio, host_gib * 2), reuse, CHAT_PRICES)
    assert larger.hit_rate >= then.hit_rate - 1e-9
