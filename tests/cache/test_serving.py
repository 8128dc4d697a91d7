"""The serving model: token counts, queue, stalls, counters."""

import copy
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.constants import H100_LLAMA8B, PRESETS, EngineConstants
from kvtune_cache.serving import TTFT_BOUNDS_SECONDS, ServingModel, TtftHistogram
from kvtune_cache.tiers import CacheSettings
from tests.cache.strategies import changes, requests, settings_of_a_host

TOY = EngineConstants(
    name="toy",
    block_tokens=10,
    block_bytes=100,
    device_blocks=3,
    prefill_seconds_per_token=1.0,
    base_seconds=0.5,
    host_load_seconds_per_block=0.25,
    pass_stall_seconds=4.0,
    pass_stall_seconds_per_block=0.5,
)
ROOMY = CacheSettings(ttl_seconds=1e6, eviction_ratio=0.5, host_blocks=100)


def test_a_cold_request_pays_its_base_and_every_token() -> None:
    served = ServingModel(TOY, ROOMY).serve(0.0, [1, 2], 17)
    assert served.ttft_seconds == pytest.approx(0.5 + 17)
    assert (served.device_hit_tokens, served.host_hit_tokens) == (0, 0)


def test_a_host_hit_pays_its_load_instead_of_its_prefill() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1, 2], 20)
    model.serve(0.0, [7, 8, 9], 30)
    served = model.serve(1000.0, [1, 2, 3], 25)
    assert (served.device_hit_tokens, served.host_hit_tokens) == (0, 20)
    assert served.ttft_seconds == pytest.approx(0.5 + 2 * 0.25 + 5)


def test_a_hit_on_a_partial_last_block_counts_only_its_tokens() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1, 2], 13)
    assert model.serve(100.0, [1, 2], 13).device_hit_tokens == 13
    model.serve(200.0, [7, 8, 9], 30)
    assert model.serve(300.0, [1, 2], 13).host_hit_tokens == 13


def test_a_full_hit_still_computes_one_token() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1, 2], 20)
    assert model.serve(100.0, [1, 2], 20).ttft_seconds == pytest.approx(0.5 + 1.0)


def test_tokens_past_the_last_block_are_never_hit() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1], 15)
    assert model.serve(100.0, [1], 15).device_hit_tokens == 10
    assert model.serve(200.0, [], 5).device_hit_tokens == 0


def test_the_second_of_two_requests_waits_for_the_first() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1], 10)
    served = model.serve(2.0, [5], 10)
    assert served.queue_seconds == pytest.approx(8.5)
    assert served.ttft_seconds == pytest.approx(8.5 + 10.5)
    assert model.totals.busy_seconds == pytest.approx(21.0)


def test_an_eviction_pass_stalls_the_request_that_starts_it() -> None:
    model = ServingModel(TOY, replace(ROOMY, host_blocks=4))
    model.serve(0.0, [1, 2, 3, 4], 40)
    served = model.serve(1000.0, [5], 10)
    assert served.eviction_passes == 1
    assert served.ttft_seconds == pytest.approx(0.5 + 10 + 4.0 + 2 * 0.5)
    assert model.totals.stall_seconds == pytest.approx(5.0)


def test_a_request_longer_than_both_tiers_is_served_and_its_head_kept() -> None:
    model = ServingModel(TOY, replace(ROOMY, host_blocks=2))
    model.serve(0.0, [1, 2, 3, 4, 5], 50)
    assert model.serve(100.0, [1, 2, 3, 4, 5], 50).device_hit_tokens == 30
    assert (model.occupancy().device_blocks, model.occupancy().host_blocks) == (3, 2)


def test_every_block_new_to_the_host_tier_is_written_down_whole() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1, 2], 11)
    model.serve(1.0, [1, 2, 3], 21)
    assert model.totals.bytes_written_down == 300


def test_new_roots_counts_each_session_root_once() -> None:
    model = ServingModel(TOY, ROOMY)
    for second, root in enumerate([5, 5, 6, None, 5]):
        model.serve(float(second), [1], 10, root)
    assert model.totals.new_roots == 2


def test_a_root_seen_in_each_hour_stays_known_and_a_forgotten_one_is_new_again() -> None:
    model = ServingModel(TOY, ROOMY)
    for hour in range(6):
        model.serve(hour * 3600.0, [1], 10, 5)
    assert model.totals.new_roots == 1
    model.serve(10 * 3600.0, [1], 10, 5)
    model.serve(10 * 3600.0, [1], 10, 6)
    model.serve(13 * 3600.0, [1], 10, 7)
    model.serve(16 * 3600.0, [1], 10, 6)
    assert model.totals.new_roots == 4


def test_an_arrival_before_the_latest_time_is_refused_and_changes_nothing() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(5.0, [1], 10)
    before = copy.copy(model.totals)
    for arrival in (4.0, float("nan")):
        with pytest.raises(ValueError, match=r"arrival_s: .* is before 5\.0"):
            model.serve(arrival, [2], 10)
    assert model.totals == before


def test_a_prompt_shorter_than_its_blocks_is_refused() -> None:
    model = ServingModel(TOY, ROOMY)
    with pytest.raises(ValueError, match="prompt_tokens: 10 is less than 11, for 2 blocks"):
        model.serve(0.0, [1, 2], 10)
    with pytest.raises(ValueError, match="prompt_tokens: 0 is less than 1, for 0 blocks"):
        model.serve(0.0, [], 0)


def test_time_that_passes_without_requests_ends_idle_blocks() -> None:
    model = ServingModel(TOY, replace(ROOMY, ttl_seconds=10.0))
    model.serve(0.0, [1, 2], 20)
    model.advance(10.5)
    assert (model.occupancy().host_blocks, model.totals.evicted_blocks_ttl) == (0, 2)
    model.advance(3.0)
    assert model.now_s == 10.5


def test_shrinking_a_live_tier_counts_as_resize_and_starts_no_pass() -> None:
    model = ServingModel(TOY, ROOMY)
    model.serve(0.0, [1, 2, 3, 4], 40)
    model.reconfigure(replace(ROOMY, host_blocks=1), 1.0)
    assert (model.totals.evicted_blocks_resize, model.totals.eviction_passes) == (3, 0)
    assert model.settings.host_blocks == model.occupancy().host_capacity_blocks == 1


def test_histogram_bounds_are_upper_and_inclusive() -> None:
    histogram = TtftHistogram()
    for seconds in (0.001, 0.0011, 0.25, 0.2500001, 2560.0, 9999.0):
        histogram.observe(seconds)
    cumulative = dict(zip((*TTFT_BOUNDS_SECONDS, float("inf")), histogram.cumulative(), strict=True))
    assert (cumulative[0.001], cumulative[0.005], cumulative[0.25], cumulative[0.5]) == (1, 2, 3, 4)
    assert (cumulative[2560.0], cumulative[float("inf")], histogram.count) == (5, 6, 6)


@given(settings_of_a_host, st.lists(st.one_of(requests, changes), max_size=40))
def test_counters_only_grow_and_a_hit_never_exceeds_its_prompt(
    settings: CacheSettings, steps: list[tuple[float, list[int]] | tuple[float, CacheSettings]]
) -> None:
    model, now = ServingModel(TOY, settings), 0.0
    for wait, step in steps:
        now += wait
        before = asdict(model.totals)
        if isinstance(step, CacheSettings):
            model.reconfigure(step, now)
        else:
            prompt = 10 * len(step) - len(step) % 10
            served = model.serve(now, step, prompt, step[0])
            assert 0 <= served.device_hit_tokens + served.host_hit_tokens <= prompt
            assert min(served.device_hit_tokens, served.host_hit_tokens) >= 0
            assert (
                served.ttft_seconds >= served.queue_seconds + TOY.base_seconds + TOY.prefill_seconds_per_token
            )
        assert all(after >= before[name] for name, after in asdict(model.totals).items())
        seen = model.occupancy()
        assert seen.host_blocks <= seen.host_capacity_blocks
        assert seen.device_blocks <= seen.device_capacity_blocks
    assert model.ttft.count == model.totals.requests == sum(model.ttft.counts)


@given(st.lists(requests, max_size=40))
def test_a_larger_tier_or_a_longer_ttl_never_hits_less_without_batch_eviction(
    steps: list[tuple[float, list[int]]],
) -> None:
    small = CacheSettings(ttl_seconds=3.0, eviction_ratio=1e-9, host_blocks=12)
    hits = []
    for settings in (small, replace(small, host_blocks=40), replace(small, host_blocks=40, ttl_seconds=30.0)):
        model, now = ServingModel(TOY, settings), 0.0
        for wait, blocks in steps:
            now += wait
            model.serve(now, blocks, 10 * len(blocks))
        hits.append(model.totals.device_hit_tokens + model.totals.host_hit_tokens)
    assert hits == sorted(hits)


def test_presets_are_found_by_their_names_and_state_llama_block_sizes() -> None:
    assert set(PRESETS) == {"h100-llama8b", "h100-llama8b-512", "cpu-tiny"}
    assert H100_LLAMA8B.block_bytes == 128 * 32 * 8 * 128 * 2 * 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("device_blocks", 0, "device_blocks: 0 is less than 1"),
        ("base_seconds", -1.0, "base_seconds: -1.0 is not at"),
    ],
)
def test_constants_no_engine_has_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TOY, **{field: value})  # type: ignore[arg-type]  # one field at a time, each its own type
