"""Send generated chat to agents that come and go: as many sessions for each, which stay where they are.

Called by `kvtune traffic`. Every agent has a slot of a stream of sessions. Who joins takes a slot that was
left (and its sessions, as clients that connect again would), or else one of a new stream, as busy as all
others. The requests of a slot that nobody has are lost and counted. So each agent's load stays what it was,
whoever comes or goes beside it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx

from kvtune_lab.clock import ScaledClock
from kvtune_lab.generator import generate
from kvtune_lab.posting import AgentLink, AgentTally, PostingConfig, Row, cut
from kvtune_lab.spans import Spans, sleep_until, steps_due
from kvtune_lab.traffic import hastened

log = logging.getLogger(__name__)

Members = Callable[[], Sequence[str]]
"""Who takes part now: addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig:
    """How busy each agent is, and how requests are sent.

    Raises ValueError for a rate or a step that is not above 0, and for a share outside 0 to 1.
    """

    posting: PostingConfig = field(default_factory=PostingConfig)
    requests_per_second: float = 5.0
    batch_seconds: float = 1.0
    seed: int = 1
    haste: float = 1.0
    """People think this many times as fast; requests per second stay as they are."""

    hinted_share: float = 0.0
    """Share of the requests whose client tells when the session returns, or that it is over."""

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        for name in ("requests_per_second", "batch_seconds", "haste"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: {getattr(self, name)} is not a finite number greater than 0")
        if not 0 <= self.hinted_share <= 1:
            raise ValueError(f"hinted_share: {self.hinted_share} is not within 0 to 1")


@dataclass(slots=True, kw_only=True)
class LiveTally:
    """What became of all requests so far."""

    agents: dict[str, AgentTally] = field(default_factory=dict)
    lost_requests: int = 0
    """Made for a slot that nobody had."""

    def total(self, of: str) -> int:
        """The sum of one count over all agents that ever were."""
        return sum(int(getattr(tally, of)) for tally in self.agents.values())

    @property
    def last_refusal(self) -> str | None:
        """What an agent said that did not take requests."""
        return next((t.last_refusal for t in reversed(self.agents.values()) if t.last_refusal), None)


@dataclass(slots=True)
class _Slot:
    """A place in a stream, and who has it or had it last."""

    url: str
    link: AgentLink | None = None
    posting: "asyncio.Task[None] | None" = None

    async def leave(self) -> None:
        """End its posting."""
        if self.posting is not None:
            self.posting.cancel()
            await asyncio.gather(self.posting, return_exceptions=True)
        self.link = self.posting = None


class _Fleet:
    """The streams and their slots."""

    def __init__(self, config: LiveConfig, client: httpx.AsyncClient, tally: LiveTally) -> None:
        self._config = config
        self._client = client
        self._tally = tally
        self._streams: list[tuple[Spans, list[_Slot]]] = []

    @property
    def _slots(self) -> list[_Slot]:
        return [slot for _, slots in self._streams for slot in slots]

    async def become(self, urls: Sequence[str], now_unix_s: float) -> None:
        """Give every address a slot, its own from before if that is free, and nobody else one."""
        wanted = list(dict.fromkeys(urls))
        for slot in self._slots:
            if slot.link is not None and slot.url not in wanted:
                log.info("agent left", extra={"url": slot.url})
                await slot.leave()
        having = {slot.url for slot in self._slots if slot.link is not None}
        joining = [url for url in wanted if url not in having]
        free = [slot for slot in self._slots if slot.link is None]
        for slot in [slot for slot in free if slot.url in joining]:
            joining.remove(slot.url)
            free.remove(slot)
            self._join(slot, slot.url)
        for slot, url in zip(free, joining, strict=False):
            self._join(slot, url)
        rest = joining[len(free) :]
        if rest:
            self._add_stream(rest, now_unix_s)

    def post(self, until: float) -> None:
        """Queue for every agent what arrives up to a time."""
        most = self._config.posting.most_requests_per_post
        for spans, slots in self._streams:
            for slot, rows in zip(slots, spans.rows_until(until), strict=True):
                self._put(slot, rows, until, most)

    async def end(self) -> None:
        """End all posting."""
        for slot in self._slots:
            await slot.leave()

    def _put(self, slot: _Slot, rows: list[Row], until: float, most: int) -> None:
        if slot.link is None:
            self._tally.lost_requests += len(rows)
            return
        for batch in cut(rows, until, most):
            slot.link.put_or_skip_oldest(batch)

    def _add_stream(self, urls: Sequence[str], now_unix_s: float) -> None:
        haste, seed = self._config.haste, self._config.seed + len(self._streams)
        rate = self._config.requests_per_second * len(urls) / haste
        share = self._config.hinted_share
        requests = hastened(generate(requests_per_second=rate, seed=seed, hinted_share=share), haste)
        spans = Spans(requests, len(urls), now_unix_s)
        slots = [_Slot(url) for url in urls]
        self._streams.append((spans, slots))
        for slot in slots:
            self._join(slot, slot.url)

    def _join(self, slot: _Slot, url: str) -> None:
        log.info("agent joined", extra={"url": url})
        tally = self._tally.agents.setdefault(url, AgentTally())
        slot.url = url
        slot.link = AgentLink(url, self._config.posting, self._client, tally)
        slot.posting = asyncio.create_task(slot.link.post_all())


async def run_live(
    config: LiveConfig,
    members: Members,
    clock: ScaledClock,
    stop: asyncio.Event,
    tally: LiveTally,
    *,
    client: httpx.AsyncClient,
) -> None:
    """Send from now on until `stop` is set; `tally` is written all along. An agent's failure is counted."""
    fleet = _Fleet(config, client, tally)
    until = clock.now_s()
    try:
        while not stop.is_set():
            await fleet.become(members(), until)
            until += steps_due(until, clock, config.batch_seconds) * config.batch_seconds
            await sleep_until(until, clock, stop)
            if not stop.is_set():
                fleet.post(until)
    finally:
        await fleet.end()
