"""Prometheus over samples with exact times: resets, NaN, gaps, twins, replicas, versions of vLLM, own
PromQL."""

import math
from collections.abc import Iterator

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.names import Metric
from kvtune_api.wire import Counters
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Unreachable
from kvtune_tuner.sli import Missing, MissingReason
from tests.contracts.recorded import EVERY, Recorded, Recording, agent_values, key, times
from tools.controlplane.prometheus import Prometheus

END = 1200.0
"""Seconds after the base at which the recording ends; tests ask for moments before that."""

ODD = 'eu "west"\\1\nx'
"""A label's value in which everything must be escaped."""


def _record(to: Recording) -> None:
    for at in times(1.2, END):
        to.scrape(at, {"namespace": "good", "pod": "chat-1"}, agent_values(to.base, at))
        to.scrape(
            at + 3.3, {"namespace": "good", "pod": "chat-2"}, agent_values(to.base, at + 3.3, rate=20.0)
        )
        to.scrape(at, {"namespace": "odd", "pod": "a.b", "zone": ODD}, agent_values(to.base, at))
        to.scrape(at, {"namespace": "odd", "pod": "aXb", "zone": "other"}, agent_values(to.base, at))
        for job in ("agents", "pods"):
            target = {"namespace": "twins", "pod": "chat-1", "job": job}
            to.scrape(at + (0.5 if job == "pods" else 0.0), target, agent_values(to.base, at))
        for replica, gap in (("a", at > 600 and at < 640), ("b", False)):
            target = {"namespace": "pair", "pod": "chat-1", "prometheus_replica": replica}
            if not gap:
                to.scrape(at + (1.5 if replica == "b" else 0.0), target, agent_values(to.base, at))
        fresh = at >= 600
        values = agent_values(to.base, at, started=600.0 if fresh else -600.0)
        to.scrape(at, {"namespace": "reset", "pod": "chat-1", "instance": "new" if fresh else "old"}, values)
        nan = {key(f"{Metric.VLLM_PROMPT_TOKENS}_total", model_name="m"): math.nan}
        to.scrape(at, {"namespace": "nan", "pod": "chat-1"}, {**agent_values(to.base, at), **nan})
        if at < 300:
            to.scrape(at, {"namespace": "gone", "pod": "chat-1"}, agent_values(to.base, at))
        spelled = {
            (name.replace(":", "_"), labels): value
            for (name, labels), value in agent_values(to.base, at).items()
        }
        to.scrape(at, {"namespace": "spelled", "pod": "chat-1"}, spelled)
        to.scrape(at, {"namespace": "v1", "pod": "vllm-0"}, _vllm(at, new=True))
        to.scrape(at, {"namespace": "v0", "pod": "vllm-0"}, _vllm(at, new=False))


def _vllm(at: float, *, new: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    queries, hits = (
        (Metric.VLLM_DEVICE_QUERIES, Metric.VLLM_DEVICE_HITS)
        if new
        else (Metric.VLLM_OLD_QUERIES, Metric.VLLM_OLD_HITS)
    )
    found = {key(Metric.PROCESS_STARTED_AT): 1000.0}
    for engine in ("0", "1"):
        labels = {"model_name": "m", "engine": engine}
        for ended, share in (("stop", 3), ("length", 1)):
            found[key(f"{Metric.VLLM_REQUESTS}_total", finished_reason=ended, **labels)] = share * at
        found[key(f"{Metric.VLLM_PROMPT_TOKENS}_total", **labels)] = 1000 * at
        found[key(f"{queries}_total", **labels)] = 100 * at
        found[key(f"{hits}_total", **labels)] = 40 * at
        if new:
            found[key(f"{Metric.VLLM_EXTERNAL_HITS}_total", **labels)] = 10 * at
        for bound, share in (("0.1", 1), ("+Inf", 4)):
            found[key(f"{Metric.VLLM_TTFT}_bucket", le=bound, **labels)] = share * at
        found[key(f"{Metric.VLLM_TTFT}_sum", **labels)] = at
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("prometheus")
    recording = Recording(WallClock().now().timestamp() // 60 * 60 - 3600)
    _record(recording)
    recording.store(folder / "data")
    with Prometheus(folder, {"scrape_configs": []}) as prometheus:
        yield Recorded(prometheus.url, recording.base)


async def newest(metrics: PrometheusMetrics, *agents: str) -> dict[str, Counters | Missing]:
    return dict(await metrics.newest({agent: Unreachable(message="not asked") for agent in agents}))


async def bound(metrics: PrometheusMetrics, agent: str, at: float, slack: float = 0.0) -> Counters | Missing:
    return (await metrics.counters_at([agent], at, slack_seconds=slack))[agent]


def counters(found: Counters | Missing) -> Counters:
    assert isinstance(found, Counters), found
    return found


def missing(found: Counters | Missing) -> Missing:
    assert isinstance(found, Missing), found
    return found


async def test_the_newest_counters_are_of_the_grid_time_that_the_agent_says(recorded: Recorded) -> None:
    found = await newest(recorded.metrics("good", at=1000.0), "chat-1", "chat-2")

    first, second = counters(found["chat-1"]), counters(found["chat-2"])
    assert first.at == recorded.base + 990, "scraped at 991.2"
    assert (first.started_at, first.requests) == (recorded.base - 600, 15_900)
    assert (first.prompt_tokens, first.hit_tokens, first.errors) == (1_590_000, 795_000, 159)
    assert first.eviction_passes is None, "an agent that has no such counter"
    assert first.ttft is not None
    assert (first.ttft.bounds, first.ttft.counts) == ((0.25,), (7950, 15_900))
    assert second.at == recorded.base + 990
    assert second.requests == 31_800


async def test_a_sample_younger_than_the_scrape_delay_is_not_used(recorded: Recorded) -> None:
    found = await newest(recorded.metrics("good", at=991.1), "chat-1")

    assert counters(found["chat-1"]).at == recorded.base + 975


async def test_a_moment_is_answered_by_the_newest_sample_before_it(recorded: Recorded) -> None:
    metrics = recorded.metrics("good", at=1000.0)

    assert counters(await bound(metrics, "chat-1", recorded.base + 705)).at == recorded.base + 705
    assert counters(await bound(metrics, "chat-1", recorded.base + 700)).at == recorded.base + 690
    assert counters(await bound(metrics, "chat-1", recorded.base + 715)).at == recorded.base + 705


async def test_a_moment_after_the_usable_samples_is_no_data_and_asks_nobody(recorded: Recorded) -> None:
    metrics = recorded.metrics("good", at=1000.0)

    found = missing(await bound(metrics, "chat-1", recorded.base + 1005))

    assert found.reason is MissingReason.NO_DATA
    assert metrics.asked == 0


async def test_a_moment_whose_counters_may_still_be_scraped_is_not_answered_yet(recorded: Recorded) -> None:
    found = missing(await bound(recorded.metrics("good", at=1004.0), "chat-1", recorded.base + 1000))
    later = await bound(recorded.metrics("good", at=1010.0), "chat-1", recorded.base + 1000)

    assert found.reason is MissingReason.NO_DATA
    assert counters(later).at == recorded.base + 990, "the scrape at 1006.2 shows 1005"


async def test_a_moment_before_the_agents_start_is_a_missed_bound(recorded: Recorded) -> None:
    found = missing(await bound(recorded.metrics("good", at=1000.0), "chat-1", recorded.base - 500))

    assert found.reason is MissingReason.BOUND_MISSED
    assert "kvtune_agent_counters_timestamp_seconds{" in found.message
    assert 'namespace="good",pod=~"chat-1"' in found.message
    assert recorded.url in found.message


async def test_moments_within_what_ticks_have_fetched_ask_nobody(recorded: Recorded) -> None:
    metrics = recorded.metrics("good", at=1000.0)
    await newest(metrics, "chat-1", "chat-2")
    asked = metrics.asked

    found = await metrics.counters_at(["chat-1", "chat-2"], recorded.base + 975)
    assert {counters(item).at for item in found.values()} == {recorded.base + 975}
    assert (asked, metrics.asked) == (1, 2), "the stretch is not long enough for the scrape before"


async def test_an_agent_that_ended_is_no_data_and_its_past_stays_known(recorded: Recorded) -> None:
    metrics = recorded.metrics("gone", at=600.0)

    ended = missing((await newest(metrics, "chat-1"))["chat-1"])
    past = await bound(metrics, "chat-1", recorded.base + 280)
    after = missing(await bound(metrics, "chat-1", recorded.base + 400))

    assert ended.reason is MissingReason.NO_DATA
    assert counters(past).at == recorded.base + 270
    assert after.reason is MissingReason.BOUND_MISSED


async def test_an_agent_that_has_just_ended_is_stale(recorded: Recorded) -> None:
    alive, later = recorded.metrics("gone", at=290.0), recorded.metrics("gone", at=600.0)
    await newest(alive, "chat-1")
    later._store = alive._store

    found = missing((await newest(later, "chat-1"))["chat-1"])

    assert found.reason is MissingReason.STALE
    assert "the newest is of" in found.message


async def test_a_restart_gives_another_start_and_counters_from_zero(recorded: Recorded) -> None:
    metrics = recorded.metrics("reset", at=1000.0)

    before = counters(await bound(metrics, "chat-1", recorded.base + 585))
    after = counters(await bound(metrics, "chat-1", recorded.base + 615))

    assert (before.started_at, after.started_at) == (recorded.base - 600, recorded.base + 600)
    assert (after.requests or 0) < (before.requests or 0)


async def test_a_pod_that_came_back_with_another_address_is_still_one_counter(recorded: Recorded) -> None:
    metrics = recorded.metrics("reset", at=1000.0)

    assert counters(await bound(metrics, "chat-1", recorded.base + 600)).at == recorded.base + 600


async def test_nan_is_missing_with_metric_and_time(recorded: Recorded) -> None:
    found = missing((await newest(recorded.metrics("nan", at=1000.0), "chat-1"))["chat-1"])

    assert found.reason is MissingReason.NAN
    assert "vllm:prompt_tokens_total is nan" in found.message


async def test_two_series_for_one_pod_are_ambiguous_and_the_label_is_named(recorded: Recorded) -> None:
    metrics = recorded.metrics("twins", at=1000.0)

    for found in (
        (await newest(metrics, "chat-1"))["chat-1"],
        await bound(metrics, "chat-1", recorded.base + 700),
    ):
        assert missing(found).reason is MissingReason.AMBIGUOUS
        assert "differ in job" in missing(found).message


async def test_the_two_of_a_pair_are_ambiguous_without_their_label(recorded: Recorded) -> None:
    found = missing((await newest(recorded.metrics("pair", at=1000.0), "chat-1"))["chat-1"])

    assert found.reason is MissingReason.AMBIGUOUS
    assert "differ in prometheus_replica" in found.message
    assert "replicaLabel" in found.message


async def test_of_a_pair_one_replica_answers_all_moments(recorded: Recorded) -> None:
    metrics = recorded.metrics("pair", at=645.0, replicaLabel="prometheus_replica")

    found = await newest(metrics, "chat-1")

    assert counters(found["chat-1"]).at == recorded.base + 630, "replica a has a gap here"
    assert metrics._replica == "b"
    for at in (315, 615, 630):
        assert counters(await bound(metrics, "chat-1", recorded.base + at)).at == recorded.base + at
    assert metrics._replica == "b"


async def test_values_are_escaped(recorded: Recorded) -> None:
    metrics = recorded.metrics("odd", at=1000.0, matchers={"zone": ODD})

    found = await newest(metrics, "a.b", 'x"}) or vector(1) #', "aXb")

    assert isinstance(found["a.b"], Counters)
    assert missing(found["aXb"]).reason is MissingReason.NO_DATA, "it is in another zone"
    assert missing(found['x"}) or vector(1) #']).reason is MissingReason.NO_DATA


async def test_another_namespace_is_not_seen(recorded: Recorded) -> None:
    found = await newest(recorded.metrics("elsewhere", at=1000.0), "chat-1")

    assert missing(found["chat-1"]).reason is MissingReason.NO_DATA


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


async def test_a_thousand_agents_are_asked_for_in_five_queries(recorded: Recorded) -> None:
    metrics = recorded.metrics("good", at=1000.0)

    found = await newest(metrics, *(f"chat-{number}" for number in range(1, 1001)))

    assert metrics.asked == 5
    assert sum(isinstance(item, Counters) for item in found.values()) == 2
    assert EVERY == 15.0
