"""Metrics that are empty, doubled, broken or not numbers: Missing with a reason, never a guess."""

import math
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import canonical
from kvtune_api.names import Metric
from kvtune_api.wire import Counters, Report
from kvtune_operator.adapters.exposition import counters_of
from kvtune_operator.adapters.fetch import Fetcher
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.pool import Pool
from tests.fakes.samples import cache_config
from tests.fakes.servers import answering
from tests.fakes.sim import PoolSettings

URL = "http://agent/metrics"
GOOD = f"""\
# HELP {Metric.VLLM_PROMPT_TOKENS}_total Prompt tokens.
# TYPE {Metric.VLLM_PROMPT_TOKENS}_total counter
{Metric.VLLM_PROMPT_TOKENS}_total{{model_name="m"}} 1000.0
{Metric.VLLM_REQUESTS}_total{{model_name="m"}} 10.0
{Metric.AGENT_COUNTERS_AT} 1.9e+09
{Metric.AGENT_STARTED_AT} 1.8999e+09
{Metric.VLLM_DEVICE_HITS}_total{{model_name="m"}} 300.0
{Metric.VLLM_EXTERNAL_HITS}_total{{model_name="m"}} 200.0
{Metric.VLLM_TTFT}_bucket{{le="0.25",model_name="m"}} 8.0
{Metric.VLLM_TTFT}_bucket{{le="+Inf",model_name="m"}} 10.0
{Metric.VLLM_TTFT}_count{{model_name="m"}} 10.0
{Metric.VLLM_TTFT}_sum{{model_name="m"}} 2.5
process_cpu_seconds_total 12.0
"""


def counted(text: str) -> Counters | Missing:
    return counters_of(text.encode(), URL)


def test_what_an_agent_exposes_is_read() -> None:
    counters = counted(GOOD)

    assert isinstance(counters, Counters)
    assert (counters.at, counters.started_at) == (1.9e9, 1.8999e9)
    assert (counters.requests, counters.prompt_tokens, counters.hit_tokens) == (10.0, 1000.0, 500.0)
    assert counters.ttft is not None
    assert (counters.ttft.bounds, counters.ttft.counts) == ((0.25,), (8.0, 10.0))


def test_a_counter_that_is_not_kept_is_none_and_not_zero() -> None:
    counters = counted(GOOD)

    assert isinstance(counters, Counters)
    assert counters.errors is None
    assert counters.eviction_passes is None
    assert counters.new_session_roots is None


def test_without_a_hit_counter_there_are_no_hits_rather_than_none_hit() -> None:
    text = "".join(line for line in GOOD.splitlines(keepends=True) if "cache_hits" not in line)
    counters = counted(text)

    assert isinstance(counters, Counters)
    assert counters.hit_tokens is None


WITHOUT = {
    name: "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(name))
    for name in (
        f"{Metric.VLLM_PROMPT_TOKENS}_total",
        f"{Metric.VLLM_REQUESTS}_total",
        str(Metric.AGENT_COUNTERS_AT),
        str(Metric.AGENT_STARTED_AT),
    )
}


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_metric_that_is_absent_is_named(name: str) -> None:
    found = counted(WITHOUT[name])

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA
    assert found.message == f"GET {URL}: no {name}"


TROUBLE = {
    "empty": ("", MissingReason.NO_DATA),
    "a web page": ("<html><body>login</body></html>\n", MissingReason.NO_DATA),
    "a number that is none": (GOOD.replace("1000.0", "many"), MissingReason.NO_DATA),
    "NaN": (GOOD.replace("1000.0", "NaN"), MissingReason.NAN),
    "Inf": (GOOD.replace(" 10.0\n", " +Inf\n", 1), MissingReason.NAN),
    "NaN in an optional counter": (GOOD.replace(" 300.0", " NaN"), MissingReason.NAN),
    "NaN in a bucket": (GOOD.replace(" 8.0", " NaN"), MissingReason.NAN),
    "a counter twice": (
        GOOD + f'{Metric.VLLM_PROMPT_TOKENS}_total{{model_name="other"}} 5.0\n',
        MissingReason.AMBIGUOUS,
    ),
    "a bucket twice": (
        GOOD + f'{Metric.VLLM_TTFT}_bucket{{le="0.25",model_name="other"}} 8.0\n',
        MissingReason.AMBIGUOUS,
    ),
    "a negative counter": (GOOD.replace("1000.0", "-1"), MissingReason.INCONSISTENT),
    "no bucket for +Inf": (GOOD.replace('le="+Inf"', 'le="9"'), MissingReason.INCONSISTENT),
    "buckets that fall": (GOOD.replace(" 8.0", " 11.0"), MissingReason.INCONSISTENT),
    "a bucket without le": (GOOD.replace('le="0.25",', ""), MissingReason.INCONSISTENT),
    "no sum": (GOOD.replace("seconds_sum", "seconds_sun"), MissingReason.INCONSISTENT),
}


@pytest.mark.parametrize("case", sorted(TROUBLE))
def test_trouble_is_missing_with_its_reason(case: str) -> None:
    text, reason = TROUBLE[case]

    found = counted(text)

    assert isinstance(found, Missing), found
    assert found.reason is reason
    assert URL in found.message
    assert len(found.message) < 400


def test_bytes_that_are_no_text_are_missing() -> None:
    found = counters_of(b"\xff\xfe\x00", URL)

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    assert isinstance(counted(text), Missing)


@given(
    st.lists(st.sampled_from(GOOD.splitlines()), max_size=20),
    st.floats(allow_nan=True, allow_infinity=True),
)
def test_shuffled_lines_and_any_number_never_raise_and_never_give_nan(
    lines: list[str], number: float
) -> None:
    found = counted("\n".join(lines).replace("1000.0", repr(number)))

    if isinstance(found, Counters):
        assert math.isfinite(found.prompt_tokens or 0.0)


@pytest.fixture
async def metrics() -> AsyncIterator[ScrapeMetrics]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield ScrapeMetrics(Fetcher(client, timeout_seconds=5.0), kept_per_agent=3)


async def test_an_http_error_is_missing_with_url_and_status(metrics: ScrapeMetrics) -> None:
    async with answering(b"no", status=500) as address:
        found = (await metrics.newest([address]))[address]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.UNREACHABLE
    assert found.message == f"GET {address}/metrics: HTTP 500 no"


async def test_a_past_moment_that_was_scraped_is_not_asked_again(metrics: ScrapeMetrics) -> None:
    async with answering(GOOD.encode(), content_type="text/plain") as address:
        newest = await metrics.newest([address])
    assert isinstance(newest[address], Counters), "the server is gone now"

    assert await metrics.counters_at([address], 1.9e9) == newest
    assert await metrics.counters_at([address], 1.9e9 + 12, slack_seconds=12) == newest
    gone = (await metrics.counters_at([address], 1.9e9 + 5))[address]
    assert isinstance(gone, Missing)
    assert gone.reason is MissingReason.UNREACHABLE


async def test_only_so_many_samples_of_an_agent_are_kept(metrics: ScrapeMetrics) -> None:
    for step in range(5):
        text = GOOD.replace("1.9e+09", str(1.9e9 + 5 * step))
        transport = httpx.MockTransport(lambda request, text=text: httpx.Response(200, text=text))
        async with httpx.AsyncClient(transport=transport) as client:
            metrics._fetcher = Fetcher(client)
            await metrics.newest(["http://a"])

    assert sorted(metrics._samples["http://a"]) == [1.9e9 + 10, 1.9e9 + 15, 1.9e9 + 20]


async def test_an_agent_that_has_left_is_forgotten(metrics: ScrapeMetrics) -> None:
    async with answering(GOOD.encode(), content_type="text/plain") as address:
        await metrics.newest([address])
        await metrics.newest([])

    assert metrics._samples == {}


async def test_a_moment_off_the_grid_without_slack_is_a_missed_bound_and_nobody_is_asked(
    metrics: ScrapeMetrics,
) -> None:
    found = (await metrics.counters_at(["http://127.0.0.1:1"], 1.9e9 + 1))["http://127.0.0.1:1"]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.BOUND_MISSED


async def test_counters_of_another_moment_than_asked_are_refused(metrics: ScrapeMetrics) -> None:
    pool = Pool(PoolSettings(), config=cache_config())
    report = pool.report(pool.names()[0], pool.settings.start)
    assert isinstance(report, Report)
    async with answering(canonical(report).encode()) as address:
        found = (await metrics.counters_at([address], pool.settings.start - 5))[address]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.INCONSISTENT
