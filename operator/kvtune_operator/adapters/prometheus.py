"""SLIs from a Prometheus: the port `Metrics` where one is configured.

Asks for raw samples with their true times, so that nothing is interpolated, and uses none younger than the
scrape delay. What a tick has fetched is kept for the ticks after it; a failure costs one timeout a tick.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from kvtune_api.sources import PrometheusSource
from kvtune_api.wire import GRID_SECONDS, Counters, Report
from kvtune_operator.adapters import promql
from kvtune_operator.adapters.credentials import Provider
from kvtune_operator.adapters.own_queries import OwnValues, own_values, with_own
from kvtune_operator.adapters.presets import FIELDS, TABLES
from kvtune_operator.adapters.prometheus_client import PrometheusClient
from kvtune_operator.adapters.prometheus_samples import Found, Sample, Shape, chosen, found, of_replica
from kvtune_operator.adapters.sample_store import SampleStore
from kvtune_operator.ports import Metrics, Unreachable
from kvtune_tuner.sli import Missing, MissingReason

PODS_PER_QUERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Which scrapes are asked for (unix seconds)."""

    since: float
    until: float


class PrometheusMetrics(Metrics):
    """Implement `ports.Metrics` over one Prometheus, for one policy.

    `label_of` gives the value of the pod label for an agent's name; `namespace` is None where agents are not
    pods. `now` is unscaled time.
    """

    def __init__(
        self,
        source: PrometheusSource,
        label_of: Callable[[str], str],
        namespace: str | None,
        credentials: Provider,
        now: Callable[[], datetime],
        *,
        monotonic: Callable[[], float],
        quotes: bool = True,
    ) -> None:
        """`source` is resolved: everything that has a default is set, and the address too.

        Without `quotes` no message has any of the text that comes from the address.
        """
        assert source.address and source.preset and source.pod_label
        assert source.scrape_interval and source.scrape_delay and source.timeout
        self._source = source
        self._label_of = label_of
        self._now = now
        self._pod_label = source.pod_label
        self._namespace = (source.namespace_label or "namespace", namespace) if namespace else None
        self._interval = source.scrape_interval.seconds
        self._delay = source.scrape_delay.seconds
        self._table = TABLES[source.preset]
        own = {item.name for item in fields(source.queries) if getattr(source.queries, item.name)}
        self._own = frozenset("ttft" if name == "ttft_buckets" else name for name in own)
        self._names = self._table.names(FIELDS - self._own)
        self._shape = Shape(
            pod_label=self._pod_label, replica_label=source.replica_label, summed=self._table.summed
        )
        self._client = PrometheusClient(
            source.address,
            timeout_seconds=source.timeout.seconds,
            credentials=credentials,
            now=now,
            monotonic=monotonic,
            skew_seconds=max(self._interval, 2 * GRID_SECONDS),
            quotes=quotes,
        )
        self._store = SampleStore()
        self._replica: str | None = None

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The newest complete sample of every agent, never one younger than the scrape delay."""
        agents = tuple(reports)
        await self._client.begin()
        self._store.keep(agents)
        until = self._now().timestamp() - self._delay
        span = _Span(since=until - 2 * self._interval - self._margin, until=until)
        samples, own = await asyncio.gather(self._fetched(agents, span), self._own_at(agents, until))
        answers: dict[str, Counters | Missing] = {}
        for agent, taken in samples.items():
            if isinstance(taken, Missing):
                answers[agent] = taken
                continue
            self._store.add(agent, taken, since=span.since, until=span.until)
            newest = taken[-1].counters if taken else self._alone(until)
            answers[agent] = newest or self._stale(agent, span)
        return with_own(answers, own)

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """The newest sample at `at` or before it, not older than the slack or the scrape interval."""
        usable = self._now().timestamp() - self._delay
        if at > usable:
            why = f"of {_clock(at)} may be incomplete: samples are used up to {_clock(usable)}"
            return {agent: self._missing(MissingReason.NO_DATA, agent, why) for agent in agents}
        reach = max(slack_seconds, self._interval) + self._margin
        span = _Span(since=at - reach, until=min(usable, at + self._tail))
        own = await self._own_at(agents, at)
        kept = {agent: self._store.between(agent, span.since, span.until) for agent in agents}
        unknown = [agent for agent, samples in kept.items() if samples is None]
        samples = await self._fetched(unknown, span) if unknown else {}
        answers: dict[str, Counters | Missing] = {}
        for agent in agents:
            taken = samples[agent] if agent in samples else kept[agent] or []
            answers[agent] = taken if isinstance(taken, Missing) else self._bound(agent, taken, at, reach)
        return with_own(answers, own)

    def close(self) -> None:
        """Give the connections up."""
        self._client.close()

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return self._client.asked

    @property
    def _margin(self) -> float:
        """How much later than the interval the next sample may be: counters of agents are of the grid time
        before a scrape, and scrapes are not exactly on time."""
        return GRID_SECONDS if self._table.at else 0.1 * self._interval

    @property
    def _tail(self) -> float:
        """How long after a moment the scrape comes that shows the counters of that moment."""
        return self._interval + 2 * GRID_SECONDS if self._table.at else 0.0

    def _bound(self, agent: str, samples: Sequence[Sample], at: float, reach: float) -> Counters | Missing:
        """The answer for a moment, which stays the same whenever it is asked again."""
        before = [sample for sample in samples if at - reach < sample.at <= at]
        exact = bool(before) and before[-1].at == at
        passed = any(sample.at > at for sample in samples)
        over = self._now().timestamp() - self._delay >= at + self._tail
        if before and (exact or passed or over):
            return before[-1].counters
        if not (over or passed):
            why = f"of {_clock(at)} may still come: no later one was scraped yet"
            return self._missing(MissingReason.NO_DATA, agent, why)
        if alone := self._alone(at):
            return alone
        why = f"between {_clock(at - reach)} and {_clock(at)}"
        return self._missing(MissingReason.BOUND_MISSED, agent, why)

    def _alone(self, at: float) -> Counters | None:
        """Counters to which only queries of the user's own are added, where these replace what is needed."""
        return Counters(at=at) if {"prompt_tokens", "hit_tokens"} <= self._own else None

    def _stale(self, agent: str, span: _Span) -> Missing:
        """Why there is no fresh sample: an old one, or none at all."""
        ended = self._store.newest_at(agent)
        since = f"between {_clock(span.since)} and {_clock(span.until)}"
        if ended is None:
            return self._missing(MissingReason.NO_DATA, agent, since)
        why = f"{since}; the newest is of {_clock(ended)}"
        return self._missing(MissingReason.STALE, agent, why)

    async def _fetched(self, agents: Sequence[str], span: _Span) -> dict[str, list[Sample] | Missing]:
        """All samples of the agents between two times, of one HA replica."""
        pods = {self._label_of(agent): agent for agent in agents}
        window = f"{len(pods)} agents, {_clock(span.since)} to {_clock(span.until)}"
        parts = await asyncio.gather(
            *(self._part(part, span, window) for part in _parts(tuple(pods), PODS_PER_QUERY))
        )
        merged = {pod: data for part in parts for pod, data in part.items()}
        replica = chosen(merged, self._replica)
        if replica != self._replica:
            self._replica = replica
            self._store.clear()
        return {agent: self._usable(merged.get(pod), span) for pod, agent in pods.items()}

    async def _part(self, pods: Sequence[str], span: _Span, window: str) -> dict[str, Found]:
        if not self._names:
            return {}
        query = promql.samples(self._names, self._matching(pods), max(span.until - span.since, 0.001))
        answered = await self._client.ask(query, span.until, f"preset {self._source.preset}, {window}")
        return await asyncio.to_thread(found, answered.series, self._shape, self._table)

    def _usable(self, data: Found | None, span: _Span) -> list[Sample] | Missing:
        if data is None:
            return []
        if data.ambiguous is not None:
            text = data.ambiguous.message
            hint = "" if self._source.replica_label else "; of a highly available pair set replicaLabel"
            return replace(data.ambiguous, message=f"{text}{hint} ({self._client.where})")
        return [s for s in of_replica(data, self._replica) if span.since < s.scraped_at <= span.until]

    async def _own_at(self, agents: Sequence[str], at: float) -> OwnValues:
        if not self._own:
            return {}
        pods = {self._label_of(agent): agent for agent in agents}

        async def ask(name: str, query: str, part: Sequence[str]) -> OwnValues:
            asked = promql.expanded(query, self._matching(part))
            what = f"query {name}, {len(part)} agents, at {_clock(at)}"
            extra = {"lookback_delta": f"{math.ceil(self._interval + self._margin)}s"}
            answered = await self._client.ask(asked, at, what, extra)
            values = own_values(name, answered.series, self._pod_label, part)
            return {pods[pod]: found for pod, found in values.items()}

        asked = [
            ask(item.name, query, part)
            for item in fields(self._source.queries)
            if (query := getattr(self._source.queries, item.name))
            for part in _parts(tuple(pods), PODS_PER_QUERY)
        ]
        merged: OwnValues = {}
        for part in await asyncio.gather(*asked):
            for agent, values in part.items():
                merged[agent] = {**merged.get(agent, {}), **values}
        return merged

    def _matching(self, pods: Sequence[str]) -> str:
        return promql.matchers(self._source.matchers, self._pod_label, pods, self._namespace)

    def _missing(self, reason: MissingReason, agent: str, why: str) -> Missing:
        """A message with the query to try by hand, the window and the reason."""
        name = self._table.at or self._table.counters["prompt_tokens"].either[-1]
        query = f"{name}{{{self._matching([self._label_of(agent)])}}}"
        return Missing(reason=reason, message=f"{agent}: no sample of {query} {why} ({self._client.where})")


def _parts(pods: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    return [pods[first : first + size] for first in range(0, len(pods), size)]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%H:%M:%S")
