"""Counters that are absent, of another moment, or of a silent agent: Missing, never a guess."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from kvtune_api.codec import canonical
from kvtune_api.wire import Counters, Report
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.ports import Unreachable
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.pool import Pool
from tests.fakes.samples import cache_config
from tests.fakes.servers import answering
from tests.fakes.sim import PoolSettings

NOW = PoolSettings().start
GONE = "http://127.0.0.1:1"
"""Nobody listens on port 1."""


def report(at: float = NOW) -> Report:
    """A report with the counters of one grid time."""
    pool = Pool(PoolSettings(), config=cache_config())
    found = pool.report(pool.names()[0], at)
    assert isinstance(found, Report)
    return found


@pytest.fixture
async def metrics() -> AsyncIterator[ScrapeMetrics]:
    async with fetching(timeout_seconds=5.0) as fetcher:
        yield ScrapeMetrics(fetcher, kept_per_agent=3)


def missing(found: Counters | Missing) -> Missing:
    assert isinstance(found, Missing), found
    return found


async def test_the_newest_counters_are_those_of_the_report(metrics: ScrapeMetrics) -> None:
    found = await metrics.newest({GONE: report()})

    assert found == {GONE: report().counters}


async def test_an_agent_without_a_report_is_missing_with_its_trouble(metrics: ScrapeMetrics) -> None:
    trouble = Unreachable(message="GET http://a/v1/report: HTTP 500 no")

    found = missing((await metrics.newest({"http://a": trouble}))["http://a"])

    assert (found.reason, found.message) == (MissingReason.UNREACHABLE, trouble.message)


@pytest.mark.parametrize(
    ("why", "says"), [("NoTraffic", "a: no counters (NoTraffic)"), (None, "a: no counters (no reason given)")]
)
async def test_a_report_without_counters_is_missing_with_its_reason(
    metrics: ScrapeMetrics, why: str | None, says: str
) -> None:
    found = missing((await metrics.newest({"a": replace(report(), counters=None, missing=why)}))["a"])

    assert (found.reason, found.message) == (MissingReason.NO_DATA, says)


async def test_a_past_moment_that_was_reported_is_not_asked_again(metrics: ScrapeMetrics) -> None:
    newest = await metrics.newest({GONE: report()})

    assert await metrics.counters_at([GONE], NOW) == newest
    assert await metrics.counters_at([GONE], NOW + 12, slack_seconds=12) == newest
    gone = missing((await metrics.counters_at([GONE], NOW + 5))[GONE])
    assert gone.reason is MissingReason.UNREACHABLE


async def test_only_so_many_samples_of_an_agent_are_kept(metrics: ScrapeMetrics) -> None:
    for step in range(5):
        await metrics.newest({GONE: report(NOW + 5 * step)})

    assert sorted(metrics._samples[GONE]) == [NOW + 10, NOW + 15, NOW + 20]


async def test_an_agent_that_has_left_is_forgotten(metrics: ScrapeMetrics) -> None:
    await metrics.newest({GONE: report()})
    await metrics.newest({})

    assert metrics._samples == {}


async def test_a_moment_off_the_grid_without_slack_is_a_missed_bound_and_nobody_is_asked(
    metrics: ScrapeMetrics,
) -> None:
    found = missing((await metrics.counters_at([GONE], NOW + 1))[GONE])

    assert found.reason is MissingReason.BOUND_MISSED


async def test_a_past_moment_is_asked_of_the_agent_and_then_kept(metrics: ScrapeMetrics) -> None:
    async with answering(canonical(report()).encode()) as address:
        first = await metrics.counters_at([address], NOW)

    assert first[address] == report().counters
    assert await metrics.counters_at([address], NOW) == first, "the server is gone now"


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("BoundMissed", MissingReason.BOUND_MISSED),
        ("NoData", MissingReason.NO_DATA),
        (None, MissingReason.NO_DATA),
    ],
)
async def test_a_past_moment_that_the_agent_does_not_hold_is_missing(
    metrics: ScrapeMetrics, why: str | None, reason: MissingReason
) -> None:
    body = canonical(replace(report(), counters=None, missing=why)).encode()
    async with answering(body) as address:
        found = missing((await metrics.counters_at([address], NOW - 500))[address])

    assert found.reason is reason
    assert f"{address}/v1/report?at=" in found.message


async def test_an_http_error_is_missing_with_url_and_status(metrics: ScrapeMetrics) -> None:
    async with answering(b"no", status=500) as address:
        found = missing((await metrics.counters_at([address], NOW - 500))[address])

    assert found.reason is MissingReason.UNREACHABLE
    assert found.message == f"GET {address}/v1/report?at={NOW - 500:.0f}: HTTP 500 no"


async def test_counters_of_another_moment_than_asked_are_refused(metrics: ScrapeMetrics) -> None:
    async with answering(canonical(report()).encode()) as address:
        found = missing((await metrics.counters_at([address], NOW - 5))[address])

    assert found.reason is MissingReason.INCONSISTENT
