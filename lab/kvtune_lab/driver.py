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
from kvtune_lab.posting import AgentLink, AgentTally, PostingConfig, Row, cut
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request

MOST_STEPS_AT_ONCE = 20


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


class _Spans:
    """Take requests from a workload span by span, as rows per agent."""

    def __init__(self, requests: Iterable[Request], agents: int, start_unix_s: float) -> None:
        self._requests = iter(requests)
        self._sticky = StickyAssignment(agents)
        self._agents = agents
        self._start_unix_s = start_unix_s
        self._ahead: Request | None = None
        self.ended = False

    def rows_until(self, until_unix_s: float) -> list[list[Row]]:
        """Give each agent's rows that arrive up to a time, in order."""
        rows: list[list[Row]] = [[] for _ in range(self._agents)]
        while not self.ended:
            request = self._ahead or next(self._requests, None)
            if request is None:
                self.ended = True
                break
            arrival = round(self._start_unix_s + request.arrival_s, 6)
            if arrival > until_unix_s:
                self._ahead = request
                break
            self._ahead = None
            agent = self._sticky.agent_of(request.root, request.arrival_s)
            rows[agent].append(
                (arrival, request.root, request.prompt_tokens, request.output_tokens, request.blocks)
            )
        return rows


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


def _spans(config: DriverConfig, requests: Iterable[Request], clock: ScaledClock) -> _Spans:
    return _Spans(requests, len(config.agents), clock.origin_unix_s - config.prefill_seconds)


async def _feed(
    config: DriverConfig,
    spans: _Spans,
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
        until += _steps_due(until, clock, config.batch_seconds) * config.batch_seconds
        await _sleep_until(until, clock, stop)
        if stop.is_set():
            break
        for link, rows in zip(links, spans.rows_until(until), strict=True):
            for batch in cut(rows, until, most):
                link.put_or_skip_oldest(batch)
    tally.source_ended = spans.ended
    await _drained_or_stopped(links, stop)


def _steps_due(until: float, clock: ScaledClock, step: float) -> int:
    """Say how many steps to take at once: one, or as many as have passed already."""
    return min(MOST_STEPS_AT_ONCE, max(1, int((clock.now_s() - until) / step)))


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


async def _sleep_until(virtual_unix_s: float, clock: ScaledClock, stop: asyncio.Event) -> None:
    """Sleep until a virtual time, or until stopped; always gives others a turn."""
    seconds = clock.wall_seconds_until(virtual_unix_s)
    if seconds == 0:
        await asyncio.sleep(0)
        return
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
