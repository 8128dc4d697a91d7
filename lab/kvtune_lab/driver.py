"""Send a workload to replay agents: sessions stay with their agent, time runs on the scaled clock.

Started by `python -m kvtune_lab drive` in a process of its own. First the prefill, unclocked; then a batch
for every agent each time virtual time passes another `batch_seconds` (several at once where it is behind).
Arrivals are virtual unix seconds; the workload's second 0 is the origin minus the prefill.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import httpx

from kvtune_lab.clock import ScaledClock
from kvtune_lab.posting import AgentLink, AgentTally, PostingConfig, cut
from kvtune_lab.spans import MOST_STEPS_AT_ONCE, Spans, sleep_until, steps_due
from kvtune_lab.traffic import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """Where to send, and in which steps of virtual time.

    Raises ValueError for no agent, a step that is not above 0, a negative prefill.
    """

    agents: tuple[str, ...]
    posting: PostingConfig = field(default_factory=PostingConfig)
    prefill_seconds: float = 1200.0
    batch_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what cannot be driven."""
        if not self.agents:
            raise ValueError("agents: none is given")
        if not self.batch_seconds > 0:
            raise ValueError(f"batch_seconds: {self.batch_seconds} is not greater than 0")
        if not self.prefill_seconds >= 0:
            raise ValueError(f"prefill_seconds: {self.prefill_seconds} is less than 0")


@dataclass(slots=True, kw_only=True)
class DriverTally:
    """What a run did so far; the caller may wait for `prefilled`."""

    agents: dict[str, AgentTally] = field(default_factory=dict)
    prefilled: asyncio.Event = field(default_factory=asyncio.Event)
    source_ended: bool = False

    def as_json(self) -> dict[str, object]:
        """Give the counts as plain values."""
        return {
            "agents": {url: asdict(tally) for url, tally in self.agents.items()},
            "prefilled": self.prefilled.is_set(),
            "sourceEnded": self.source_ended,
        }


async def run_driver(
    config: DriverConfig,
    requests: Iterable[Request],
    clock: ScaledClock,
    stop: asyncio.Event,
    tally: DriverTally,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> None:
    """Drive agents until `stop` is set or the workload ends; `tally` is written all along.

    The workload's second 0 is the origin minus the prefill. An agent's failure is counted, never raised.
    """
    timeout = httpx.Timeout(config.posting.timeout_wall_seconds)
    async with httpx.AsyncClient(timeout=timeout, transport=transport, trust_env=False) as client:
        links = []
        for url in config.agents:
            tally.agents[url] = AgentTally()
            links.append(AgentLink(url, config.posting, client, tally.agents[url]))
        posting = [asyncio.create_task(link.post_all()) for link in links]
        try:
            await _feed(config, _spans(config, requests, clock), links, clock, stop, tally)
        finally:
            for task in posting:
                task.cancel()
            await asyncio.gather(*posting, return_exceptions=True)


def _spans(config: DriverConfig, requests: Iterable[Request], clock: ScaledClock) -> Spans:
    return Spans(requests, len(config.agents), clock.origin_unix_s - config.prefill_seconds)


async def _feed(
    config: DriverConfig,
    spans: Spans,
    links: list[AgentLink],
    clock: ScaledClock,
    stop: asyncio.Event,
    tally: DriverTally,
) -> None:
    """Queue the prefill and wait for it, then queue each span when its end has come."""
    most = config.posting.most_requests_per_post
    until = clock.origin_unix_s - config.prefill_seconds
    while until < clock.origin_unix_s and not stop.is_set():
        until = min(until + MOST_STEPS_AT_ONCE * config.batch_seconds, clock.origin_unix_s)
        for link, rows in zip(links, spans.rows_until(until), strict=True):
            for batch in cut(rows, until, most):
                await link.put_patiently(batch)
    await _drained_or_stopped(links, stop)
    if not stop.is_set():
        tally.prefilled.set()
    while not stop.is_set() and not spans.ended:
        until += steps_due(until, clock, config.batch_seconds) * config.batch_seconds
        await sleep_until(until, clock, stop)
        if stop.is_set():
            break
        for link, rows in zip(links, spans.rows_until(until), strict=True):
            for batch in cut(rows, until, most):
                link.put_or_skip_oldest(batch)
    tally.source_ended = spans.ended
    await _drained_or_stopped(links, stop)


async def _drained_or_stopped(links: list[AgentLink], stop: asyncio.Event) -> None:
    """Wait until every batch is posted or skipped, or for the stop, whichever comes first."""

    async def stopped() -> None:
        await stop.wait()

    async def drained() -> None:
        await asyncio.gather(*(link.drained() for link in links))

    tasks = [asyncio.create_task(stopped()), asyncio.create_task(drained())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
