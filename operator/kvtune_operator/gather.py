"""Read everything that one step of one policy may look at: all reads, in parallel, bounded, each timed out.

Called by reconcile.py once per tick. Decides nothing: what fails for one agent, or for metrics and profiles
as a whole, is a value with its reason.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Report
from kvtune_operator.ports import (
    Agents,
    Clock,
    Discovered,
    House,
    Invalid,
    Metrics,
    Objects,
    Profiles,
    Sources,
    Stored,
    Unreachable,
)
from kvtune_tuner.model import AgentSeen, Seen, Stalls
from kvtune_tuner.needs import exact, newest_moment, profiled, recent
from kvtune_tuner.sli import Missing, MissingReason

RECENT_SLACK_SECONDS = 15.0
"""Windows of SLIs and breaker may begin this much earlier than asked, at a sample that is already known."""


class GatherSettings(Protocol):
    """What a reading is told."""

    @property
    def tick_seconds(self) -> float:
        """Scaled seconds between ticks."""
        ...

    @property
    def speed(self) -> float:
        """Scaled seconds per wall second."""
        ...

    @property
    def ends_at(self) -> datetime | None:
        """When the control plane is to stop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was read for one tick."""

    seen: Seen
    existing: KVCacheExperiment | None
    """The experiment as stored, with its resource version."""

    stored: Stored
    """The policy as stored: what statuses are written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the process knows beside its ports."""

    token: int
    fenced: bool
    shutdown: bool


def made_for(experiment: KVCacheExperiment, policy: Metadata) -> bool:
    """Whether an experiment is of this very policy, not of another one that had its name."""
    return experiment.spec.policy_uid == (policy.uid or policy.name)


class Gatherer:
    """Reads through its ports. Holds no state."""

    def __init__(
        self, *, agents: Agents, house: House, objects: Objects, clock: Clock, settings: GatherSettings
    ) -> None:
        self._agents = agents
        self._house = house
        self._objects = objects
        self._clock = clock
        self._settings = settings

    async def gather(self, name: str, situation: Situation) -> Gathered | Invalid | None:
        """Everything for one tick; `Invalid` where the spec cannot be accepted; None: the policy is gone.

        A policy that became invalid in mid-experiment is read with the experiment's own spec, so that the
        experiment can be ended. Raises `Unavailable` when objects or agents fail as a whole.
        """
        stored = await self._objects.policy(name)
        if stored is None:
            return None
        status = stored.status or await self._first_status(stored.metadata)
        experiment = await self._own_experiment(stored.metadata, status.experiment)
        if isinstance(stored, KVCachePolicy):
            policy, invalid = replace(stored, status=status), ""
        elif experiment is not None:
            spec = experiment.spec.policy_spec
            policy = KVCachePolicy(metadata=stored.metadata, spec=spec, status=status)
            invalid = str(stored.error)
        else:
            return stored
        try:
            sources = self._house.sources(policy)
        except SpecError as error:
            if experiment is None:
                return Invalid(metadata=policy.metadata, status=policy.status, error=error)
            policy = replace(policy, spec=experiment.spec.policy_spec)
            invalid = invalid or str(error)
            sources = Sources(metrics=_NoMetrics(str(error)))
        seen = await self._seen(policy, experiment, sources, situation, invalid)
        return Gathered(seen=seen, existing=experiment, stored=stored)

    async def _seen(
        self,
        policy: KVCachePolicy,
        experiment: KVCacheExperiment | None,
        sources: Sources,
        situation: Situation,
        invalid: str,
    ) -> Seen:
        found = await self._discovered(policy, experiment)
        reports, commands = await asyncio.gather(
            self._agents.reports(found.agents), self._objects.commands(policy.metadata.name)
        )
        newest = await _newest(sources.metrics, reports)
        now = self._clock.now()
        samples, stalls = await asyncio.gather(
            self._samples(policy, experiment, sources.metrics, newest, now),
            _stalls(sources.profiles, experiment, found.agents, now),
        )
        return Seen(
            now=now,
            policy=policy,
            experiment=experiment,
            agents=tuple(_agent(agent, reports.get(agent)) for agent in sorted(found.agents)),
            samples=samples,
            newest=newest,
            commands=commands,
            token=situation.token,
            fenced=situation.fenced,
            ends_at=self._settings.ends_at,
            speed=self._settings.speed,
            tick_seconds=self._settings.tick_seconds,
            shutdown=situation.shutdown,
            invalid=invalid,
            pool=found.pool,
            limits=self._house.limits(policy, now),
            stalls=stalls,
        )

    async def _own_experiment(self, policy: Metadata, name: str | None) -> KVCacheExperiment | None:
        """The experiment that a status names; None where it is one of an older policy of the name."""
        found = await self._objects.experiment(name) if name else None
        return found if found is not None and made_for(found, policy) else None

    async def _discovered(self, policy: KVCachePolicy, experiment: KVCacheExperiment | None) -> Discovered:
        """The agents; while an experiment is live those that its own selector chose, and all of its pairs.

        Otherwise agents that an edit, or another label, takes from the policy would keep the candidate.
        """
        if experiment is None:
            return await self._agents.discover(policy)
        selecting = replace(policy.spec, selector=experiment.spec.policy_spec.selector)
        pairs = [name for pair in experiment.spec.pairs for name in (pair.first, pair.second)]
        return await self._agents.discover(replace(policy, spec=selecting), also=pairs)

    async def _first_status(self, policy: Metadata) -> PolicyStatus:
        """The status of a new policy, numbered on from all experiments of earlier ones of that name.

        No record is ever written over. Only an experiment of this very policy that a killed writer left, and
        that has not ended, gets its own number again.
        """
        for name in reversed(await self._objects.experiments(policy.name)):
            found = await self._objects.experiment(name)
            if found is not None:
                left_behind = made_for(found, policy) and found.status.outcome is None
                return PolicyStatus(experiments_started=found.spec.number - int(left_behind))
        return PolicyStatus()

    async def _samples(
        self,
        policy: KVCachePolicy,
        experiment: KVCacheExperiment | None,
        metrics: Metrics,
        newest: Mapping[str, Counters | Missing],
        now: datetime,
    ) -> dict[float, Mapping[str, Counters | Missing]]:
        at = newest_moment(newest, now_s=now.timestamp(), tick_s=self._settings.tick_seconds)
        wanted = {}
        if at is not None:
            wanted = dict.fromkeys(recent(policy.spec, experiment, at), RECENT_SLACK_SECONDS) | {at: 0.0}
        wanted |= dict.fromkeys(exact(experiment, now.timestamp()), 0.0)
        agents = tuple(newest)
        answers = await asyncio.gather(*(_at(metrics, agents, at, slack) for at, slack in wanted.items()))
        return dict(zip(wanted, answers, strict=True))


class _NoMetrics(Metrics):
    """Metrics that cannot be asked: for the end of an experiment whose sources are not known any more."""

    def __init__(self, why: str) -> None:
        self._missing = Missing(reason=MissingReason.NO_DATA, message=why)

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """Nothing."""
        return dict.fromkeys(reports, self._missing)

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Nothing."""
        return dict.fromkeys(agents, self._missing)


async def _newest(
    metrics: Metrics, reports: Mapping[str, Report | Unreachable]
) -> Mapping[str, Counters | Missing]:
    """The newest samples; when metrics fail as a whole they are missing, with the reason."""
    try:
        return await metrics.newest(reports)
    except Unavailable as error:
        return dict.fromkeys(reports, Missing(reason=MissingReason.NO_DATA, message=str(error)))


async def _at(
    metrics: Metrics, agents: Sequence[str], at: float, slack: float
) -> Mapping[str, Counters | Missing]:
    try:
        return await metrics.counters_at(agents, at, slack_seconds=slack)
    except Unavailable as error:
        return dict.fromkeys(agents, Missing(reason=MissingReason.NO_DATA, message=str(error)))


async def _stalls(
    profiles: Profiles | None,
    experiment: KVCacheExperiment | None,
    agents: Sequence[str],
    now: datetime,
) -> dict[tuple[float, float], Mapping[str, Stalls | Missing]]:
    if profiles is None:
        return {}
    windows = profiled(experiment, now.timestamp())
    answers = await asyncio.gather(*(_profile(profiles, agents, *window) for window in windows))
    return dict(zip(windows, answers, strict=True))


async def _profile(
    profiles: Profiles, agents: Sequence[str], since: float, until: float
) -> Mapping[str, Stalls | Missing]:
    try:
        return await profiles.stalls(agents, since, until)
    except Unavailable as error:
        return dict.fromkeys(agents, Missing(reason=MissingReason.NO_DATA, message=str(error)))


def _agent(name: str, report: Report | Unreachable | None) -> AgentSeen:
    if isinstance(report, Report):
        return AgentSeen(name=name, report=report)
    return AgentSeen(name=name, report=None, trouble=report.message if report else "no answer")
