"""Questions to one Prometheus, a bounded number at once, none after a failure until the next tick."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.credentials import Credentials, Provider
from kvtune_operator.adapters.prometheus_http import Answered, PrometheusHttp

PARALLEL = 4
GRACE_SECONDS = 0.5
"""A thread that keeps to its own timeout is not cut off."""


class PrometheusClient:
    """Ask one Prometheus from a coroutine; each question in a thread with a connection of its own."""

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        credentials: Provider,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        skew_seconds: float,
        quotes: bool = True,
    ) -> None:
        """Answers of a server whose clock differs from `now` by more than `skew_seconds` are refused."""
        self.where = f"{address.rstrip('/')}/api/v1/query"
        self.asked = 0
        self.received_bytes = 0
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._provider = credentials
        self._now = now
        self._monotonic = monotonic
        self._skew_seconds = skew_seconds
        self._quotes = quotes
        self._gate = asyncio.Semaphore(PARALLEL)
        self._credentials: Credentials | None = None
        self._known = False
        self._idle: list[PrometheusHttp] = []
        self._down: Unavailable | None = None

    async def begin(self) -> None:
        """A tick begins: what failed in the last one is tried again, credentials are looked at."""
        self._down = None
        credentials = await self._provider()
        if credentials != self._credentials:
            self.close()
        self._credentials, self._known = credentials, True

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    async def ask(self, query: str, at: float, what: str, extra: Mapping[str, str] | None = None) -> Answered:
        """An answer; raise `Unavailable` with address, reason and `what` was asked."""
        if not self._known:
            await self.begin()
        async with self._gate:
            if self._down is not None:
                raise Unavailable(str(self._down))
            try:
                answered = await self._exchanged(query, at, extra)
                self._check_clock(answered)
            except Unavailable as error:
                self._down = Unavailable(f"{error} ({what})")
                raise self._down from error
        self.asked += 1
        self.received_bytes += answered.size_bytes
        return answered

    async def _exchanged(self, query: str, at: float, extra: Mapping[str, str] | None) -> Answered:
        http = self._idle.pop() if self._idle else self._opened()
        try:
            async with asyncio.timeout(self._timeout_seconds + GRACE_SECONDS):
                answered = await asyncio.to_thread(http.ask, query, at, extra)
        except TimeoutError as error:
            http.abort()
            raise Unavailable(f"{http.where}: no whole answer within {self._timeout_seconds:g} s") from error
        except BaseException:
            http.abort()
            raise
        self._idle.append(http)
        return answered

    def _opened(self) -> PrometheusHttp:
        return PrometheusHttp(
            self._address,
            timeout_seconds=self._timeout_seconds,
            credentials=self._credentials,
            monotonic=self._monotonic,
            quotes=self._quotes,
        )

    def _check_clock(self, answered: Answered) -> None:
        if answered.server_time is None:
            return
        ahead = (answered.server_time - self._now()).total_seconds()
        if abs(ahead) > self._skew_seconds:
            how = "ahead of" if ahead > 0 else "behind"
            text = f"its clock is {abs(ahead):.0f} s {how} this machine's, so its samples cannot be placed"
            raise Unavailable(f"POST {self.where}: {text}")
