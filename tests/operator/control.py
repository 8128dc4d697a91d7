"""A control plane over fake ports that can be killed at any call and started again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kvtune_api.errors import Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import KVCachePolicy, PolicySpec
from kvtune_api.status import Condition, PolicyStatus
from kvtune_api.wire import Counters, Push, Report, Role
from kvtune_operator.house import OneHouse
from kvtune_operator.ports import Accepted, Invalid, Refused, Sources, Stored, Unreachable
from kvtune_operator.reconcile import InCharge, Reconciler, RunEnd
from kvtune_tuner.model import Command, Event
from kvtune_tuner.sli import Missing
from tests.fakes.clock import FakeClock
from tests.fakes.objects import FakeEvents, FakeObjects
from tests.fakes.pool import FakeAgents, FakeMetrics, Pool
from tests.fakes.responses import Surface
from tests.fakes.sim import PoolSettings
from tests.tuner.specs import DEFAULT_SPEC, START, gaining

NAME = "chat"


class Killed(Exception):
    """The control plane is killed here; nothing catches this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a run is told."""

    tick_seconds: float = 10.0
    speed: float = 1.0
    ends_at: datetime | None = None


ON_THE_WALL = Told()
POOL = PoolSettings(agents=6, seed=1, noise_sd=0.005, share_sd=0.005)


class FragileObjects(FakeObjects):
    """A store that can kill its caller, or lose races, at a chosen write."""

    def __init__(self) -> None:
        super().__init__()
        self.kill_after: str | None = None
        """Raise `Killed` once after this call has been carried out."""

        self.kill_before: str | None = None
        self.interfere: Callable[[], None] | None = None
        """Called before each write: another writer, who makes this one lose the race."""

    async def put_experiment(self, experiment: KVCacheExperiment) -> KVCacheExperiment:
        """Write, and die before or after where asked."""
        self._before("put_experiment")
        stored = await super().put_experiment(experiment)
        self._after("put_experiment")
        return stored

    async def put_policy_status(self, policy: Stored, status: PolicyStatus) -> Stored:
        """Write, and die before or after where asked."""
        self._before("put_policy_status")
        stored = await super().put_policy_status(policy, status)
        self._after("put_policy_status")
        return stored

    async def forget(self, commands: Sequence[Command]) -> None:
        """Forget, and die before or after where asked."""
        self._before("forget")
        await super().forget(commands)

    def touch(self, name: str = NAME) -> None:
        """Write the policy as somebody else does, unchanged."""
        self._store_policy(self._policies[name])

    def _before(self, call: str) -> None:
        if self.interfere is not None:
            self.interfere()
        if self.kill_before == call:
            self.kill_before = None
            raise Killed(call)

    def _after(self, call: str) -> None:
        if self.kill_after == call:
            self.kill_after = None
            raise Killed(call)


class FragileAgents(FakeAgents):
    """Agents whose port can kill its caller after a push."""

    kill_after_push = False

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Push, and die where asked."""
        answers = await super().push(pushes)
        if self.kill_after_push:
            self.kill_after_push = False
            raise Killed("push")
        return answers


class FragileMetrics(FakeMetrics):
    """Metrics whose port can fail as a whole."""

    broken: str | None = None

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The newest counters."""
        if self.broken is not None:
            raise Unavailable(self.broken)
        return await super().newest(reports)

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """Counters at a time."""
        if self.broken is not None:
            raise Unavailable(self.broken)
        return await super().counters_at(agents, at, slack_seconds=slack_seconds)


@dataclass(slots=True, kw_only=True)
class Control:
    """One control plane with its world."""

    pool: Pool
    clock: FakeClock = field(default_factory=FakeClock)
    objects: FragileObjects = field(default_factory=FragileObjects)
    events: FakeEvents = field(default_factory=FakeEvents)
    token: int = 5
    told: Told = ON_THE_WALL
    in_charge: InCharge | None = None
    """Read when a plane is made."""

    agents: FragileAgents = field(init=False)
    metrics: FragileMetrics = field(init=False)
    plane: Reconciler = field(init=False)

    def __post_init__(self) -> None:
        self.agents = FragileAgents(self.pool, self.clock)
        self.metrics = FragileMetrics(self.pool, self.clock)
        self.plane = self.new_plane(self.token)

    def new_plane(self, token: int) -> Reconciler:
        """Another control plane over the same world."""
        return Reconciler(
            agents=self.agents,
            house=OneHouse(Sources(metrics=self.metrics)),
            objects=self.objects,
            events=self.events,
            clock=self.clock,
            token=token,
            settings=self.told,
            in_charge=self.in_charge,
        )

    def restart(self, after_seconds: float = 0.0) -> None:
        """Start a new control plane with a higher token after some time."""
        self.clock.advance(after_seconds)
        self.token += 1
        self.plane = self.new_plane(self.token)

    @property
    def now(self) -> float:
        """Engine seconds."""
        return self.clock.seconds

    async def policy(self) -> KVCachePolicy:
        """The stored policy."""
        found = await self.objects.policy(NAME)
        assert found is not None, "the policy is gone"
        assert not isinstance(found, Invalid), found.error
        return found

    async def status(self) -> PolicyStatus:
        """The stored status."""
        return (await self.policy()).status or PolicyStatus()

    async def experiment(self, number: int = 1) -> KVCacheExperiment:
        """A stored experiment."""
        found = await self.objects.experiment(f"{NAME}-{number:05d}")
        assert found is not None, "there is no such experiment"
        return found

    async def outcome(self, number: int = 1) -> str:
        """How an experiment ended."""
        record = (await self.experiment(number)).status
        return f"{record.outcome}({record.reason})"

    async def tick(self, *, shutdown: bool = False) -> RunEnd | None:
        """One tick, then the time moves."""
        end = await self.plane.safe_tick(NAME, shutdown=shutdown)
        self.clock.advance(self.told.tick_seconds)
        return end

    async def ticks(self, count: int) -> None:
        """So many ticks."""
        for _ in range(count):
            await self.tick()

    async def until(self, reached: Callable[[PolicyStatus], bool], limit: int = 400) -> None:
        """Tick until the status is as asked."""
        for _ in range(limit):
            if reached(await self.status()):
                return
            await self.tick()
        status = await self.status()
        raise AssertionError(f"not reached in {limit} ticks; {status.phase}: {status.waiting_for}")

    async def until_phase(self, phase: Phase) -> None:
        """Tick until a phase is entered."""
        await self.until(lambda status: status.phase is phase)

    async def until_ended(self, number: int = 1, limit: int = 400) -> None:
        """Tick until so many experiments have ended."""
        await self.until(lambda s: len(s.trials) >= number and s.experiment is None, limit)

    async def condition(self, kind: ConditionType) -> Condition:
        """One condition."""
        return next(c for c in (await self.status()).conditions if c.type is kind)

    def told_of(self, reason: Reason) -> list[Event]:
        """Recorded events with a reason."""
        return [item.event for item in self.events.recorded if item.event.reason is reason]

    def exposed(self) -> set[str]:
        """Agents that run a candidate now."""
        reports = [self.pool.report(name, self.now) for name in self.pool.names()]
        return {r.agent for r in reports if isinstance(r, Report) and r.running.role is Role.CANDIDATE}


def control(
    surface: Surface | None = None,
    *,
    spec: PolicySpec = DEFAULT_SPEC,
    told: Told = ON_THE_WALL,
    settings: PoolSettings = POOL,
) -> Control:
    """A control plane with one policy over a new pool."""
    settings = replace(settings, speed=told.speed)
    pool = Pool(settings, surface=surface or gaining(), config=START)
    found = Control(pool=pool, told=told)
    found.objects.apply(NAME, spec)
    return found
