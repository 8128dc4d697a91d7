"""Prometheus over samples with exact times: versions of vLLM, own PromQL."""

import pytest

from kvtune_api.errors import Unavailable
from kvtune_tuner.sli import MissingReason
from tests.contracts.recorded import Recorded
from tests.contracts.recorded_pods import bound, counters, missing, newest


async def test_names_that_were_spelled_with_an_underscore_are_the_same(recorded: Recorded) -> None:
    good, spelled = recorded.metrics("good", at=1000.0), recorded.metrics("spelled", at=1000.0)

    assert await newest(good, "chat-1") == await newest(spelled, "chat-1")


async def test_vllm_v1_is_summed_over_engines_and_endings(recorded: Recorded) -> None:
    metrics = recorded.metrics("v1", at=1000.0, preset="VLLMv1")

    found = counters((await newest(metrics, "vllm-0"))["vllm-0"])

    assert found.at == pytest.approx(recorded.base + 991.2, abs=1e-3), "the time of the scrape"
    assert found.started_at == 1000.0
    assert found.requests == pytest.approx(8 * 991.2)
    assert found.prompt_tokens == pytest.approx(2000 * 991.2)
    assert found.hit_tokens == pytest.approx(100 * 991.2)
    assert found.errors is None
    assert found.bytes_down is None
    assert found.ttft is not None
    assert found.ttft.counts == pytest.approx((2 * 991.2, 8 * 991.2))


async def test_vllm_v0_gives_a_rate_of_blocks(recorded: Recorded) -> None:
    metrics = recorded.metrics("v0", at=1000.0, preset="VLLMv0")

    found = counters(await bound(metrics, "vllm-0", recorded.base + 700))

    assert found.at == pytest.approx(recorded.base + 691.2, abs=1e-3)
    assert (found.hit_tokens or 0) / (found.prompt_tokens or 1) == pytest.approx(0.4)


async def test_a_preset_that_adds_nothing_up_refuses_several_engines(recorded: Recorded) -> None:
    found = missing((await newest(recorded.metrics("v1", at=1000.0), "vllm-0"))["vllm-0"])

    assert found.reason is MissingReason.AMBIGUOUS
    assert "differ in engine" in found.message


OWN = {
    "promptTokens": "sum by (pod) (vllm:prefix_cache_queries_total{$agents})",
    "hitTokens": "sum by (pod) (vllm:prefix_cache_hits_total{$agents})",
    "ttftBuckets": "sum by (pod, le) (vllm:time_to_first_token_seconds_bucket{$agents})",
}


async def test_queries_of_ones_own_replace_the_presets_series(recorded: Recorded) -> None:
    metrics = recorded.metrics("v1", at=1000.0, preset="VLLMv1", queries=OWN)

    found = counters((await newest(metrics, "vllm-0"))["vllm-0"])

    assert found.prompt_tokens == pytest.approx(200 * 991.2)
    assert found.hit_tokens == pytest.approx(80 * 991.2)
    assert found.requests == pytest.approx(8 * 991.2), "as the preset counts it"
    assert found.ttft is not None
    assert found.ttft.bounds == (0.1,)


async def test_a_query_that_gives_several_results_for_a_pod_is_ambiguous(recorded: Recorded) -> None:
    queries = {"promptTokens": "vllm:prefix_cache_queries_total{$agents}"}
    metrics = recorded.metrics("v1", at=1000.0, preset="VLLMv1", queries=queries)

    found = missing((await newest(metrics, "vllm-0"))["vllm-0"])

    assert found.reason is MissingReason.AMBIGUOUS
    assert "prompt_tokens gives 2 results" in found.message


async def test_a_query_whose_results_name_no_pod_gives_nothing(recorded: Recorded) -> None:
    queries = {"promptTokens": "sum(vllm:prefix_cache_queries_total{$agents})"}
    metrics = recorded.metrics("v1", at=1000.0, preset="VLLMv1", queries=queries)

    found = missing((await newest(metrics, "vllm-0"))["vllm-0"])

    assert found.reason is MissingReason.NO_DATA
    assert "1 results without a known label pod" in found.message


async def test_a_query_that_is_no_promql_is_unavailable_with_its_name_and_what_is_wrong(
    recorded: Recorded,
) -> None:
    metrics = recorded.metrics("v1", at=1000.0, preset="VLLMv1", queries={"promptTokens": "sum by ("})

    with pytest.raises(Unavailable, match=r"HTTP 400 .*parse error.*query prompt_tokens"):
        await newest(metrics, "vllm-0")
