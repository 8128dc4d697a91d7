"""Gather what one policy needs, plan its next step, act on the plan. One serial task per policy.

All reads come first, in parallel and bounded; `plan` decides; then the statuses are written and only then
the agents are told. If a status cannot be written nobody is told anything: leases bring agents home.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from kvtune_api.errors import Conflict, Forbidden, Unavailable
from kvtune_api.names import Phase, Reason
from kvtune_operator.creation import kept_another
from kvtune_operator.gather import Gathered, Gatherer, GatherSettings, Situation
from kvtune_operator.ports import (
    Accepted,
    Agents,
    Clock,
    Events,
    House,
    Invalid,
    Objects,
    Refused,
    Unreachable,
)
from kvtune_tuner.accept import refused
from kvtune_tuner.draft import MESSAGE_LIMIT
from kvtune_tuner.model import AgentSeen, Event, EventType, Plan, Seen
from kvtune_tuner.plan import plan

log = logging.getLogger(__name__)

CONFLICT_ATTEMPTS = 3
SHUTDOWN_TICKS = 40
"""A stopping control plane waits at most this many ticks for agents to confirm the incumbent."""

STALE_TOKEN = "StaleToken"

InCharge = Callable[[], Awaitable[bool]]
"""Whether this control plane, looked at anew, is in charge with its token; may raise `Unavailable`."""


class RunEnd(StrEnum):
    """Why a run ended."""

    STOPPED = "Stopped"
    UNCONFIRMED = "Unconfirmed"
    """Stopped, but not every agent has confirmed its incumbent: candidates end with their lease."""

    REMOVED = "Removed"
    FENCED = "Fenced"
    HANDED_OVER = "HandedOver"
    """Left as it stands: another control plane goes on, or else leases bring the agents home."""


class Reconciler:
    """Reconciles one policy through its ports. Holds no state but its token, and what it has told last."""

    def __init__(
        self,
        *,
        agents: Agents,
        house: House,
        objects: Objects,
        events: Events,
        clock: Clock,
        token: int,
        settings: GatherSettings,
        in_charge: InCharge | None = None,
    ) -> None:
        """`in_charge` is asked when an agent refuses our token; without it such a refusal fences us."""
        self._gatherer = Gatherer(agents=agents, house=house, objects=objects, clock=clock, settings=settings)
        self._agents = agents
        self._objects = objects
        self._events = events
        self._clock = clock
        self._token = token
        self._settings = settings
        self._in_charge = in_charge
        self._fenced = False
        self._refusing: frozenset[str] = frozenset()
        """Agents that refuse our token although we are in charge."""

        self._refusals: set[str] = set()
        self._lacking = ""
        """The right whose lack was told last."""

    async def run(self, policy: str, stop: asyncio.Event, leave: asyncio.Event | None = None) -> RunEnd:
        """Tick until the policy is gone, we are fenced, or `stop` is set and all is restored.

        When `leave` is set nothing is restored: what runs is left to the next control plane.
        """
        left = SHUTDOWN_TICKS
        while True:
            if leave is not None and leave.is_set():
                return RunEnd.HANDED_OVER
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
            done = await self.tick(policy, shutdown=shutdown)
            self._lacking = ""
            return done
        except Unavailable as error:
            log.warning("tick failed, trying again", extra={"policy": policy, "error": str(error)})
            if isinstance(error, Forbidden):
                await self._tell_lacking(policy, str(error))
        except Conflict as error:
            log.warning("lost the race for an object", extra={"policy": policy, "error": str(error)})
        return None

    async def _tell_lacking(self, policy: str, message: str) -> None:
        """Leave an event at the policy: a right that is lacking may keep us from writing any status."""
        if message == self._lacking:
            return
        self._lacking = message
        event = Event(type=EventType.WARNING, reason=Reason.FORBIDDEN, message=message[:MESSAGE_LIMIT])
        try:
            stored = await self._objects.policy(policy)
        except Unavailable:
            return  # it may be this very right
        if stored is not None:
            await self._events.record(stored, (event,), self._clock.now())

    async def tick(self, policy: str, *, shutdown: bool = False) -> RunEnd | None:
        """Gather, plan, act once. Raises `Unavailable` when a port fails as a whole."""
        for attempt in range(CONFLICT_ATTEMPTS):
            situation = Situation(token=self._token, fenced=self._fenced, shutdown=shutdown)
            gathered = await self._gatherer.gather(policy, situation)
            if gathered is None:
                return RunEnd.REMOVED
            try:
                if isinstance(gathered, Invalid):
                    return await self._refuse(gathered, shutdown=shutdown)
                self._refusing = self._still_refusing(gathered.seen.agents)
                seen = replace(gathered.seen, refusing=tuple(sorted(self._refusing)))
                decided = await asyncio.to_thread(plan, seen)  # seconds, at times: others go on
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

    async def _refuse(self, policy: Invalid, *, shutdown: bool) -> RunEnd | None:
        """Tell the user once what is wrong with the spec; agents keep what they have."""
        status, events = refused(policy.metadata, policy.status, policy.error, self._clock.now())
        if status != policy.status:
            await self._objects.put_policy_status(policy, status)
        if events:
            await self._events.record(policy, events, self._clock.now())
        if policy.metadata.deletion_timestamp is not None:
            await self._objects.unprotect(policy)
            return RunEnd.REMOVED
        return RunEnd.STOPPED if shutdown else None

    async def _act(self, gathered: Gathered, decided: Plan) -> None:
        """Write first, tell agents after, then events and commands.

        The policy is protected before anything that needs an end is pushed, and freed after the end.
        """
        policy = gathered.stored
        live = decided.status.experiment is not None
        if live:
            policy = await self._objects.protect(policy)
        made = decided.experiment
        another = made is not None and await kept_another(self._objects, made, policy)
        if decided.status != policy.status:
            policy = await self._objects.put_policy_status(policy, decided.status)
        unheard = await self._push(decided) if decided.pushes and not another else ()
        restored = await self._restore(decided.restores)
        if events := (*decided.events, *unheard, *restored):
            await self._events.record(policy, events, gathered.seen.now)
        if decided.done:
            await self._objects.forget(decided.done)
        if not live:
            await self._objects.unprotect(policy)

    async def _restore(self, agents: Sequence[str]) -> tuple[Event, ...]:
        """Let agents run their eviction policy again, as a user has asked; what came of it is an event."""
        if not agents:
            return ()
        return tuple(
            _restored(agent, answer) for agent, answer in (await self._agents.restore(agents)).items()
        )

    async def _push(self, decided: Plan) -> tuple[Event, ...]:
        """Tell the agents. What they refuse is an event, once as long as it stays the same."""
        wanted = {agent: push for agent, push in decided.pushes.items() if agent not in self._refusing}
        if not wanted:
            return ()
        answers = await self._agents.push(wanted)
        stale = [agent for agent, answer in answers.items() if _is_stale(answer)]
        if stale:
            await self._heed(stale)
        known, self._refusals = self._refusals, set[str]()
        for agent, answer in answers.items():
            match answer:
                case Refused(reason=reason, message=message):
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

    def _still_refusing(self, agents: Sequence[AgentSeen]) -> frozenset[str]:
        """Who has refused our token and has not shown since that it takes it."""
        taking = (
            it.name for it in agents if it.report is not None and it.report.running.token <= self._token
        )
        return self._refusing.intersection(it.name for it in agents).difference(taking)

    async def _heed(self, stale: list[str]) -> None:
        """Find out what refusals of our token mean: another control plane, or agents that alone are wrong."""
        try:
            ours = self._in_charge is not None and await self._in_charge()
        except Unavailable as error:
            log.warning("not known who is in charge, asked again", extra={"error": str(error)})
            return
        if ours:
            self._refusing |= frozenset(stale)
        else:
            self._fenced = True


def _restored(agent: str, answer: Accepted | Refused | Unreachable) -> Event:
    if isinstance(answer, Accepted):
        text = f"{agent}: the eviction policy asked for runs again, as was asked"
        return Event(type=EventType.NORMAL, reason=Reason.EVICTION_RESTORED, message=text)
    text = f"restore {agent}: {answer.message}"[:MESSAGE_LIMIT]
    return Event(type=EventType.WARNING, reason=Reason.NOT_AVAILABLE, message=text)


def _is_stale(answer: Accepted | Refused | Unreachable) -> bool:
    return isinstance(answer, Refused) and answer.reason == STALE_TOKEN
