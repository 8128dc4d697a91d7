"""Prometheus over samples with exact times: resets, NaN, gaps, twins, replicas."""

from kvtune_api.wire import Counters
from kvtune_tuner.sli import MissingReason
from tests.contracts.recorded import EVERY, Recorded
from tests.contracts.recorded_pods import ODD, bound, counters, missing, newest


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


async def test_a_thousand_agents_are_asked_for_in_five_queries(recorded: Recorded) -> None:
    metrics = recorded.metrics("good", at=1000.0)

    found = await newest(metrics, *(f"chat-{number}" for number in range(1, 1001)))

    assert metrics.asked == 5
    assert sum(isinstance(item, Counters) for item in found.values()) == 2
    assert EVERY == 15.0
