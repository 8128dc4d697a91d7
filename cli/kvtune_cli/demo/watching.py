"""See what the demo's processes do: the control plane's files, and the agents' own reports."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy, PolicySpec
from kvtune_api.wire import Counters, Report, Role
from kvtune_cli.demo.fleet import Fleet
from kvtune_cli.demo.lag import LagGauge, lag
from kvtune_operator.eventlog import KeptEvent, read_events
from kvtune_operator.ports import Agents, Metrics, Unreachable
from kvtune_operator.statedir import StateDir, experiments, policies
from kvtune_tuner.draft import sample
from kvtune_tuner.effect import hit_rate, objective
from kvtune_tuner.scoring import gib_configured, prices
from kvtune_tuner.sli import Missing, WindowCounts, increase, pooled
from kvtune_tuner.ttft import share_under

LIVE_SECONDS = 120.0
"""The live figures of an arm are of the last two scaled minutes."""

SAMPLES_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a group of agents did in a window; None where it cannot be said."""

    objective: float | None = None
    hit_rate: float | None = None
    within_limit: float | None = None
    """Share of the requests within the TTFT limit."""

    requests: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The demo at one moment."""

    elapsed: float
    policy: KVCachePolicy | None
    experiment: KVCacheExperiment | None
    ended: tuple[KVCacheExperiment, ...]
    agents: Mapping[str, Report | Unreachable]
    candidate: Figures
    incumbent: Figures
    events: tuple[KeptEvent, ...]
    behind_scaled_seconds: float | None = None
    """How far the agents have been behind for several looks; None while they keep up."""


@dataclass(slots=True)
class _Track:
    """The samples of one agent under its present configuration."""

    since: str = ""
    samples: deque[Counters] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))


class Watcher:
    """Looks at a fleet again and again. Holds recent samples for the live figures."""

    def __init__(self, fleet: Fleet, agents: Agents, metrics: Metrics) -> None:
        self._fleet = fleet
        self._agents = agents
        self._metrics = metrics
        self._tracks: dict[str, _Track] = {}
        self._gauge = LagGauge()

    @property
    def largest_lag(self) -> float | None:
        """The largest lag seen, in scaled seconds; None as long as no agent had counters."""
        return self._gauge.largest

    async def look(self) -> Picture:
        """One picture."""
        state = StateDir(self._fleet.state_dir)
        found = policies(state)
        policy = found[0] if found else None
        known = experiments(state)
        running = policy.status.experiment if policy and policy.status else None
        asked = self._fleet.now()
        reports = await self._agents.reports(self._fleet.addresses)
        self._remember(reports)
        return Picture(
            elapsed=self._fleet.elapsed(),
            policy=policy,
            experiment=next((e for e in known if e.metadata.name == running), None),
            ended=tuple(e for e in known if e.status.ended_at is not None),
            agents=reports,
            candidate=self._live(reports, Role.CANDIDATE, policy),
            incumbent=self._live(reports, Role.INCUMBENT, policy),
            events=read_events(state.events)[-6:],
            behind_scaled_seconds=self._gauge.look(lag(reports.values(), asked)),
        )

    def _remember(self, reports: Mapping[str, Report | Unreachable]) -> None:
        for name, report in reports.items():
            if isinstance(report, Unreachable) or report.counters is None:
                continue
            track = self._tracks.setdefault(name, _Track())
            running = report.running
            since = f"{running.role}:{running.config}:{report.started_at}"
            if since != track.since:
                track.since = since
                track.samples.clear()
            if not track.samples or report.counters.at > track.samples[-1].at:
                track.samples.append(report.counters)

    def _live(
        self, reports: Mapping[str, Report | Unreachable], role: Role, policy: KVCachePolicy | None
    ) -> Figures:
        windows, gib = [], []
        for name, report in reports.items():
            if isinstance(report, Unreachable) or report.running.role is not role:
                continue
            found = self._window(name)
            if found is not None:
                windows.append(found)
                gib.append(gib_configured(report.running.config))
        if policy is None or not windows:
            return Figures()
        return figures(windows, sum(gib) / len(gib), policy.spec)

    def _window(self, name: str) -> WindowCounts | None:
        track = self._tracks.get(name)
        if track is None or len(track.samples) < 2:
            return None
        last = track.samples[-1]
        first = next(s for s in track.samples if s.at >= last.at - LIVE_SECONDS)
        return _between(first, last)

    async def newest(self) -> float:
        """The newest moment for which every agent that answers has counters (scaled unix seconds)."""
        reports = (await self._agents.reports(self._fleet.addresses)).values()
        times = [r.counters.at for r in reports if isinstance(r, Report) and r.counters is not None]
        return min(times, default=self._fleet.now())

    async def figures_between(self, start: float, end: float, spec: PolicySpec) -> Figures:
        """What the whole pool did between two grid times (scaled unix seconds)."""
        first = await self._metrics.counters_at(self._fleet.addresses, start)
        last = await self._metrics.counters_at(self._fleet.addresses, end)
        reports = await self._agents.reports(self._fleet.addresses)
        windows, gib = [], []
        for name in self._fleet.addresses:
            found, report = _between(first[name], last[name]), reports[name]
            if found is not None and isinstance(report, Report):
                windows.append(found)
                gib.append(gib_configured(report.running.config))
        return figures(windows, sum(gib) / len(gib), spec) if windows else Figures()


def _between(first: Counters | Missing, last: Counters | Missing) -> WindowCounts | None:
    start, end = sample(first), sample(last)
    if isinstance(start, Missing) or isinstance(end, Missing) or end.at_s <= start.at_s:
        return None
    found = increase(start, end)
    return None if isinstance(found, Missing) else found


def figures(windows: list[WindowCounts], gib: float, spec: PolicySpec) -> Figures:
    """The figures of some agents' windows: objective per agent, rates of all their requests together."""
    together = pooled(windows)
    if isinstance(together, Missing):
        return Figures()
    scores = [objective(w, gib_configured=gib, prices=prices(spec)) for w in windows]
    known = [score for score in scores if not isinstance(score, Missing)]
    rate = hit_rate(together)
    share = share_under(together, spec.targets.ttft.limit.seconds) if spec.targets.ttft else None
    return Figures(
        objective=sum(known) / len(known) if known else None,
        hit_rate=None if isinstance(rate, Missing) else rate,
        within_limit=None if share is None or isinstance(share, Missing) else share.below,
        requests=together.requests or 0.0,
    )
