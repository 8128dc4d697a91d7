"""Gather what one policy needs, plan its next step, act on the plan. One serial task per policy.

All reads come first, in parallel and bounded; `plan` decides; then the statuses are written and only then
the agents are told. If a status cannot be written nobody is told anything: leases bring agents home.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Phase, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Report
from kvtune_operator.ports import Agents, Clock, Events, Metrics, Objects, Refused, Unreachable
from kvtune_tuner.draft import MESSAGE_LIMIT
from kvtune_tuner.model import AgentSeen, Event, EventType, Plan, Seen
from kvtune_tuner.needs import exact, newest_moment, recent
from kvtune_tuner.plan import plan
from kvtune_tuner.sli import Missing, MissingReason

log = logging.getLogger(__name__)

CONFLICT_ATTEMPTS = 3
RECENT_SLACK_SECONDS = 15.0
"""Windows of SLIs and breaker may begin this much earlier than asked, at a sample that is already known."""

SHUTDOWN_TICKS = 40
"""A stopping control plane waits at most this many ticks for agents to confirm the incumbent."""

STALE_TOKEN = "StaleToken"


class RunSettings(Protocol):
    """What a run is told."""

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


class RunEnd(StrEnum):
    """Why a run ended."""

    STOPPED = "Stopped"
    UNCONFIRMED = "Unconfirmed"
    """Stopped, but not every agent has confirmed its incumbent: candidates end with their lease."""

    REMOVED = "Removed"
    FENCED = "Fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was read for one tick."""

    seen: Seen
    existing: KVCacheExperiment | None
    """The experiment as stored, with its resource version."""


class Reconciler:
    """Reconciles policies through its ports. Holds no state but its token, and what was refused last."""

    def __init__(
        self,
        *,
        agents: Agents,
        metrics: Metrics,
        objects: Objects,
        events: Events,
        clock: Clock,
        token: int,
        settings: RunSettings,
    ) -> None:
        self._agents = agents
        self._metrics = metrics
        self._objects = objects
        self._events = events
        self._clock = clock
        self._token = token
        self._settings = settings
        self._fenced = False
        self._refusals: set[str] = set()

    async def run(self, policy: str, stop: asyncio.Event) -> RunEnd:
        """Tick until the policy is gone, we are fenced, or `stop` is set and all is restored."""
        left = SHUTDOWN_TICKS
        while True:
            shutdown = stop.is_set()
            done = await self.safe_tick(policy, shutdown=shutdown)
            if done is not None:
                return done
            if shutdown:
                left -= 1
                if left <= 0:
                    log.warning("stopped before all agents confirmed the incumbent", extra={"policy": policy})
                    return RunEnd.UNCONFIRMED
            await self._clock.sleep(self._until_next_tick())

    def _until_next_tick(self) -> float:
        tick = self._settings.tick_seconds
        return tick - self._clock.now().timestamp() % tick

    async def safe_tick(self, policy: str, *, shutdown: bool) -> RunEnd | None:
        """One tick; a port that fails is told of and tried again in the next."""
        try:
            return await self.tick(policy, shutdown=shutdown)
        except Unavailable as error:
            log.warning("tick failed, trying again", extra={"policy": policy, "error": str(error)})
        except Conflict as error:
            log.warning("lost the race for an object", extra={"policy": policy, "error": str(error)})
        return None

    async def tick(self, policy: str, *, shutdown: bool = False) -> RunEnd | None:
        """Gather, plan, act once. Raises `Unavailable` when a port fails as a whole."""
        for attempt in range(CONFLICT_ATTEMPTS):
            gathered = await self._gather(policy, shutdown=shutdown)
            if gathered is None:
                return RunEnd.REMOVED
            decided = plan(gathered.seen)
            try:
                await self._act(gathered, decided)
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                continue
            return self._end(gathered.seen, decided, shutdown=shutdown)
        raise AssertionError("the loop returns or raises")

    def _end(self, seen: Seen, decided: Plan, *, shutdown: bool) -> RunEnd | None:
        if seen.fenced:
            return RunEnd.FENCED
        waits = (
            decided.status.phase is Phase.AWAITING_APPROVAL
        )  # a resting phase: it goes on when we are back
        if decided.status.experiment is not None and not (shutdown and waits):
            return None
        if seen.policy.metadata.deletion_timestamp is not None:
            return RunEnd.REMOVED
        if not shutdown:
            return None
        late = any(event.reason is Reason.ROLLBACK_LATE for event in decided.events)
        return RunEnd.UNCONFIRMED if late else RunEnd.STOPPED

    async def _gather(self, name: str, *, shutdown: bool) -> Gathered | None:
        policy = await self._objects.policy(name)
        if policy is None:
            return None
        if policy.status is None:
            policy = replace(policy, status=await self._first_status(name))
        running = policy.status.experiment if policy.status else None
        experiment = await self._objects.experiment(running) if running else None
        agents = await self._agents.discover(policy.spec.selector)
        reports, newest, commands = await asyncio.gather(
            self._agents.reports(agents), self._newest(agents), self._objects.commands(name)
        )
        now = self._clock.now()
        samples = await self._samples(policy, experiment, agents, newest, now)
        seen = Seen(
            now=now,
            policy=policy,
            experiment=experiment,
            agents=tuple(_agent(agent, reports.get(agent)) for agent in sorted(agents)),
            samples=samples,
            newest=newest,
            commands=commands,
            token=self._token,
            fenced=self._fenced,
            ends_at=self._settings.ends_at,
            speed=self._settings.speed,
            tick_seconds=self._settings.tick_seconds,
            shutdown=shutdown,
        )
        return Gathered(seen=seen, existing=experiment)

    async def _first_status(self, policy: str) -> PolicyStatus:
        """The status of a new policy, numbered on from the experiments of an earlier one of that name.

        The record of an experiment that has ended is never written over.
        """
        for name in reversed(await self._objects.experiments(policy)):
            found = await self._objects.experiment(name)
            if found is not None and found.status.outcome is not None:
                return PolicyStatus(experiments_started=found.spec.number)
        return PolicyStatus()

    async def _newest(self, agents: Sequence[str]) -> Mapping[str, Counters | Missing]:
        """The newest samples; when metrics fail as a whole they are missing, with the reason."""
        try:
            return await self._metrics.newest(agents)
        except Unavailable as error:
            return dict.fromkeys(agents, Missing(reason=MissingReason.NO_DATA, message=str(error)))

    async def _samples(
        self,
        policy: KVCachePolicy,
        experiment: KVCacheExperiment | None,
        agents: Sequence[str],
        newest: Mapping[str, Counters | Missing],
        now: datetime,
    ) -> dict[float, Mapping[str, Counters | Missing]]:
        at = newest_moment(newest, now_s=now.timestamp(), tick_s=self._settings.tick_seconds)
        wanted = {}
        if at is not None:
            wanted = dict.fromkeys(recent(policy.spec, experiment, at), RECENT_SLACK_SECONDS) | {at: 0.0}
        wanted |= dict.fromkeys(exact(experiment, now.timestamp()), 0.0)
        answers = await asyncio.gather(*(self._at(agents, at, slack) for at, slack in wanted.items()))
        return dict(zip(wanted, answers, strict=True))

    async def _at(self, agents: Sequence[str], at: float, slack: float) -> Mapping[str, Counters | Missing]:
        try:
            return await self._metrics.counters_at(agents, at, slack_seconds=slack)
        except Unavailable as error:
            return dict.fromkeys(agents, Missing(reason=MissingReason.NO_DATA, message=str(error)))

    async def _act(self, gathered: Gathered, decided: Plan) -> None:
        """Write first, tell agents after, then events and commands."""
        policy = gathered.seen.policy
        kept_another = decided.experiment is not None and await self._put_experiment(decided.experiment)
        if decided.status != policy.status:
            policy = await self._objects.put_policy_status(policy, decided.status)
        refused = await self._push(decided) if decided.pushes and not kept_another else ()
        if events := (*decided.events, *refused):
            await self._events.record(policy, events, gathered.seen.now)
        if decided.done:
            await self._objects.forget(decided.done)

    async def _put_experiment(self, experiment: KVCacheExperiment) -> bool:
        """Write the experiment; True when one of this name is kept instead, which no status ever named.

        A writer killed between experiment and status left it. It stays as it is, for a spec never changes,
        and the next tick goes on with it; nothing of this plan is pushed.
        """
        try:
            await self._objects.put_experiment(experiment)
        except Conflict:
            if experiment.metadata.resource_version is not None:
                raise
            left_behind = await self._objects.experiment(experiment.metadata.name)
            if left_behind is None or left_behind.status.outcome is not None:
                raise
            return True
        return False

    async def _push(self, decided: Plan) -> tuple[Event, ...]:
        """Tell the agents. What they refuse is an event, once as long as it stays the same."""
        answers = await self._agents.push(decided.pushes)
        known, self._refusals = self._refusals, set[str]()
        for agent, answer in answers.items():
            match answer:
                case Refused(reason=reason, message=message):
                    self._fenced = self._fenced or reason == STALE_TOKEN
                    self._refusals.add(f"{agent} refused a push ({reason}): {message}"[:MESSAGE_LIMIT])
                    log.warning("push refused", extra={"agent": agent, "reason": reason, "error": message})
                case Unreachable(message=message):
                    log.warning("push failed", extra={"agent": agent, "error": message})
                case _:
                    pass
        return tuple(
            Event(type=EventType.WARNING, reason=Reason.OUT_OF_SYNC, message=text)
            for text in sorted(self._refusals - known)
        )


def _agent(name: str, report: Report | Unreachable | None) -> AgentSeen:
    if isinstance(report, Report):
        return AgentSeen(name=name, report=report)
    return AgentSeen(name=name, report=None, trouble=report.message if report else "no answer")
