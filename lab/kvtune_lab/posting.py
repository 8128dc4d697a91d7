"""Post batches of requests to one replay agent, in order, without waiting for any other.

Called by driver.py. `until` promises that every request with arrival <= until has been sent. An agent that
is down, slow or refuses costs its own batches, which are counted and skipped; the promise of the next batch
covers them.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import httpx

log = logging.getLogger(__name__)

Row: TypeAlias = (
    tuple[float, int, int, int, list[int]] | tuple[float, int, int, int, list[int], dict[str, object]]
)
"""A request as `POST /v1/replay` takes it, with its hint where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostingConfig:
    """How to post to an agent; seconds are wall time.

    Raises ValueError for what is not above 0 (the retry time may be 0).
    """

    token_file: Path | None = None
    timeout_wall_seconds: float = 10.0
    retry_wall_seconds: float = 5.0
    most_requests_per_post: int = 2000
    most_batches_waiting: int = 720

    def __post_init__(self) -> None:
        """Refuse what cannot be posted."""
        for name in ("timeout_wall_seconds", "most_requests_per_post", "most_batches_waiting"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not greater than 0")
        if not self.retry_wall_seconds >= 0:
            raise ValueError(f"retry_wall_seconds: {self.retry_wall_seconds} is less than 0")


SKIPS_LOGGED_EVERY_SECONDS = 10.0
"""Wall seconds between two log lines of one agent about skipped batches."""


@dataclass(slots=True)
class Seldom:
    """Lets one thing happen, then none for some seconds."""

    every_seconds: float
    _last: float | None = None

    def is_due(self, now_seconds: float) -> bool:
        """Say whether it may happen now; if so, the seconds begin anew."""
        if self._last is not None and now_seconds - self._last < self.every_seconds:
            return False
        self._last = now_seconds
        return True


@dataclass(slots=True, kw_only=True)
class AgentTally:
    """What became of one agent's requests."""

    posted_requests: int = 0
    refused_requests: int = 0
    skipped_requests: int = 0
    posts: int = 0
    retries: int = 0
    last_refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The body of one `POST /v1/replay`: until, and requests as rows."""

    until: float
    rows: list[Row]

    def body(self) -> dict[str, object]:
        """Give the JSON value."""
        return {"until": self.until, "requests": self.rows}


def cut(rows: list[Row], until: float, most: int) -> Iterator[Batch]:
    """Cut one span into posts of at most `most` requests; only the last one promises the whole span.

    Requests of one arrival stay in one post's promise: an earlier post promises just less than the next
    arrival.
    """
    start = 0
    while len(rows) - start > most:
        end = start + most
        while end > start and rows[end - 1][0] == rows[end][0]:
            end -= 1
        if end == start:
            end = start + most
            while end < len(rows) and rows[end - 1][0] == rows[end][0]:
                end += 1
            if end == len(rows):
                break
        yield Batch(until=rows[end - 1][0], rows=rows[start:end])
        start = end
    yield Batch(until=until, rows=rows[start:])


class AgentLink:
    """One agent: a bounded queue of batches and the task that posts them in order."""

    def __init__(self, url: str, config: PostingConfig, client: httpx.AsyncClient, tally: AgentTally) -> None:
        """Hold the agent's address, the shared client and the tally to write."""
        self._url = url.rstrip("/") + "/v1/replay"
        self._config = config
        self._client = client
        self._tally = tally
        self._skips_logged = Seldom(SKIPS_LOGGED_EVERY_SECONDS)
        self._waiting: asyncio.Queue[tuple[float, Batch]] = asyncio.Queue(config.most_batches_waiting)

    async def put_patiently(self, batch: Batch) -> None:
        """Queue a batch, waiting for room."""
        await self._waiting.put((asyncio.get_running_loop().time(), batch))

    def put_or_skip_oldest(self, batch: Batch) -> None:
        """Queue a batch; where the agent is far behind, its oldest batch is skipped."""
        if self._waiting.full():
            self._skip(self._waiting.get_nowait()[1])
            self._waiting.task_done()
        self._waiting.put_nowait((asyncio.get_running_loop().time(), batch))

    async def drained(self) -> None:
        """Wait until every queued batch was posted or skipped."""
        await self._waiting.join()

    async def post_all(self) -> None:
        """Post batch after batch, until cancelled."""
        while True:
            queued, batch = await self._waiting.get()
            try:
                await self._deliver(batch, queued + self._config.retry_wall_seconds)
            finally:
                self._waiting.task_done()

    async def _deliver(self, batch: Batch, give_up: float) -> None:
        """Post one batch, again on connection errors, 429 and 5xx, until its retry time is over.

        The time counts from when it was queued: what waited behind a dead agent is tried once each.
        """
        loop = asyncio.get_running_loop()
        pause = 0.05
        while True:
            if await self._post(batch):
                return
            if loop.time() + pause > give_up:
                self._skip(batch)
                return
            self._tally.retries += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _post(self, batch: Batch) -> bool:
        """Post once; say whether the agent took or refused it (then there is nothing to repeat)."""
        self._tally.posts += 1
        try:
            response = await self._client.post(self._url, json=batch.body(), headers=self._headers())
        except (httpx.HTTPError, OSError) as error:
            self._tally.last_refusal = f"{type(error).__name__}: {error}"
            return False
        if response.is_success:
            self._tally.posted_requests += len(batch.rows)
            return True
        self._tally.last_refusal = f"HTTP {response.status_code}: {response.text[:200]}"
        if response.status_code >= 500 or response.status_code == 429:
            return False
        self._tally.refused_requests += len(batch.rows)
        log.warning("replay batch refused", extra={"url": self._url, "status": response.status_code})
        return True

    def _headers(self) -> dict[str, str]:
        """Give the bearer token as the file holds it now, for it may have been renewed."""
        if self._config.token_file is None:
            return {}
        return {"Authorization": f"Bearer {self._config.token_file.read_text(encoding='utf-8').strip()}"}

    def _skip(self, batch: Batch) -> None:
        self._tally.skipped_requests += len(batch.rows)
        if batch.rows and self._skips_logged.is_due(asyncio.get_running_loop().time()):
            skipped, why = self._tally.skipped_requests, self._tally.last_refusal
            log.warning("replay batch skipped: %s, %d requests so far (%s)", self._url, skipped, why)
