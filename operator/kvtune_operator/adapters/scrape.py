"""SLIs by direct scrape of the agents: the port `Metrics` where no Prometheus is configured.

The reports of a tick give the newest counters. A past moment comes from an earlier report, else from the
agent's own ring by `GET /v1/report?at=`, so a restarted control plane misses no bound that agents hold.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from kvtune_api.wire import GRID_SECONDS, Counters, Report
from kvtune_operator.adapters.agents import AddressOf, fetch_report, itself
from kvtune_operator.adapters.fetch import Fetcher
from kvtune_operator.ports import Metrics, Unreachable
from kvtune_tuner.sli import Missing, MissingReason

KEPT_PER_AGENT = 512


class ScrapeMetrics(Metrics):
    """Implement `ports.Metrics` over the agents' HTTP interface."""

    def __init__(
        self, fetcher: Fetcher, *, address_of: AddressOf = itself, kept_per_agent: int = KEPT_PER_AGENT
    ) -> None:
        self._fetcher = fetcher
        self._address_of = address_of
        self._kept_per_agent = kept_per_agent
        self._samples: dict[str, OrderedDict[float, Counters]] = {}

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The counters of every agent at its newest closed grid time, as its report has them."""
        self._samples = {agent: kept for agent, kept in self._samples.items() if agent in reports}
        return {agent: self._reported(agent, report) for agent, report in reports.items()}

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Samples at engine second `at`, or up to `slack_seconds` before it."""

        async def ask(agent: str) -> Counters | Missing:
            return await self._ask(agent, at, slack_seconds)

        kept = {agent: self._kept(agent, at, slack_seconds) for agent in agents}
        asked = await self._fetcher.for_each([agent for agent, found in kept.items() if found is None], ask)
        return {agent: found or asked[agent] for agent, found in kept.items()}

    def _reported(self, agent: str, report: Report | Unreachable) -> Counters | Missing:
        if isinstance(report, Unreachable):
            return Missing(reason=MissingReason.UNREACHABLE, message=report.message)
        if report.counters is None:
            why = report.missing or "no reason given"
            return Missing(reason=MissingReason.NO_DATA, message=f"{agent}: no counters ({why})")
        self._keep(agent, report.counters)
        return report.counters

    async def _ask(self, agent: str, at: float, slack_seconds: float) -> Counters | Missing:
        moment = at // GRID_SECONDS * GRID_SECONDS
        if at - moment > slack_seconds:
            message = f"{agent}: {at:g} s is not a multiple of {GRID_SECONDS} s, no counters are kept for it"
            return Missing(reason=MissingReason.BOUND_MISSED, message=message)
        query = f"?at={moment:.0f}"
        report = await fetch_report(self._fetcher, agent, self._address_of, query)
        if isinstance(report, Unreachable):
            return Missing(reason=MissingReason.UNREACHABLE, message=report.message)
        found = _counters_in(report, moment, f"{self._address_of(agent)}/v1/report{query}")
        if isinstance(found, Counters):
            self._keep(agent, found)
        return found

    def _kept(self, agent: str, at: float, slack_seconds: float) -> Counters | None:
        kept: Mapping[float, Counters] = self._samples.get(agent, {})
        if at in kept:
            return kept[at]
        near = [moment for moment in kept if at - slack_seconds <= moment <= at]
        return kept[max(near)] if near else None

    def _keep(self, agent: str, counters: Counters) -> None:
        kept = self._samples.setdefault(agent, OrderedDict())
        kept[counters.at] = counters
        while len(kept) > self._kept_per_agent:
            kept.popitem(last=False)


def _counters_in(report: Report, at: float, url: str) -> Counters | Missing:
    counters = report.counters
    if counters is None:
        why = report.missing or "no reason given"
        reason = MissingReason.BOUND_MISSED if why == "BoundMissed" else MissingReason.NO_DATA
        return Missing(reason=reason, message=f"GET {url}: no counters ({why})")
    if not math.isclose(counters.at, at, abs_tol=1e-6):
        message = f"GET {url}: counters of {counters.at:g} s instead"
        return Missing(reason=MissingReason.INCONSISTENT, message=message)
    return counters
