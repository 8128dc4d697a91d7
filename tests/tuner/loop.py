"""Drive the real `plan` over the simulated pool by hand: what the control plane does, without its shell."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import Row
from kvtune_api.metadata import Metadata
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import (
    KVCachePolicy,
    PolicySpec,
)
from kvtune_api.status import Condition, PolicyStatus
from kvtune_api.wire import Report, Role
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_tuner.draft import moment
from kvtune_tuner.model import AgentSeen, Command, Event, Limits, Plan, PoolSeen, Seen, Stalls, Verb
from kvtune_tuner.needs import exact, newest_moment, profiled, recent
from kvtune_tuner.phases import RESTING
from kvtune_tuner.plan import plan
from kvtune_tuner.sli import Missing
from tests.fakes.pool import Pool
from tests.fakes.responses import Surface, flat
from tests.fakes.sim import PoolSettings
from tests.tuner.specs import DEFAULT_SPEC, START, gaining

BEGIN = 1893456000.0
LEASE_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class Loop:
    """One policy over one pool. Times are engine seconds."""

    pool: Pool
    policy: KVCachePolicy
    now: float = BEGIN
    tick: float = 10.0
    token: int = 5
    ends_at: float | None = None
    shutdown: bool = False
    invalid: str = ""
    pods: PoolSeen = field(default_factory=PoolSeen)
    """What nodes and pods say."""

    limits: Limits = field(default_factory=Limits)
    profiles: Callable[[str, float, float], Stalls | Missing] | None = None
    """Profile samples of an agent in a window; None where no profiles are configured."""

    experiments: dict[str, KVCacheExperiment] = field(default_factory=dict)
    events: list[tuple[float, Event]] = field(default_factory=list)
    refusals: list[tuple[float, str, Refused]] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    ticks: int = 0
    writes: int = 0
    """Statuses and experiments that a plan asked to write."""

    last: Seen | None = None
    wishes: list[Command] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, object]) -> "Loop":
        """A run that goes its own way. What a plan makes is frozen, so that both may hold it."""
        memo[id(self.pool.log)] = list(self.pool.log)
        return replace(
            self,
            pool=deepcopy(self.pool, memo),
            experiments=dict(self.experiments),
            events=list(self.events),
            refusals=list(self.refusals),
            phases=list(self.phases),
            wishes=list(self.wishes),
        )

    @property
    def status(self) -> PolicyStatus:
        """The policy's status."""
        return self.policy.status or PolicyStatus()

    @property
    def phase(self) -> Phase:
        """The policy's phase."""
        return self.status.phase

    @property
    def experiment(self) -> KVCacheExperiment:
        """The newest experiment."""
        return self.experiments[max(self.experiments)]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The newest experiment's rows."""
        return self.experiment.status.rows if self.experiments else ()

    def seen(self) -> Seen:
        """Read all that the shell reads for one tick."""
        names, now = self.pool.names(), self.now
        running = self.status.experiment
        experiment = self.experiments.get(running) if running else None
        newest = {name: self.pool.newest(name, now) for name in names}
        wanted = set(exact(experiment, now))
        at = newest_moment(newest, now_s=now, tick_s=self.tick)
        if at is not None:
            wanted |= set(recent(self.policy.spec, experiment, at))
        return Seen(
            now=moment(now),
            policy=self.policy,
            experiment=experiment,
            agents=tuple(_agent(name, self.pool.report(name, now)) for name in names),
            samples={t: {name: self.pool.counters(name, t, now) for name in names} for t in sorted(wanted)},
            newest=newest,
            commands=tuple(self.wishes),
            token=self.token,
            ends_at=None if self.ends_at is None else moment(self.ends_at),
            speed=self.pool.settings.speed,
            tick_seconds=self.tick,
            shutdown=self.shutdown,
            invalid=self.invalid,
            pool=self.pods,
            limits=self.limits,
            stalls=self._stalls(experiment, names),
        )

    def _stalls(
        self, experiment: KVCacheExperiment | None, names: Sequence[str]
    ) -> dict[tuple[float, float], dict[str, Stalls | Missing]]:
        if self.profiles is None:
            return {}
        windows = profiled(experiment, self.now)
        return {each: {name: self.profiles(name, *each) for name in names} for each in windows}

    def step(self) -> Plan:
        """One tick: see, plan, write, push; then the time moves."""
        self.last = self.seen()
        decided = plan(self.last)
        self.write(decided)
        self.push(decided)
        self.now += self.tick
        self.ticks += 1
        return decided

    def write(self, decided: Plan) -> None:
        """Write what a plan says, and keep its events."""
        if decided.experiment is not None:
            self.experiments[decided.experiment.metadata.name] = decided.experiment
            self.writes += 1
        if decided.status != self.policy.status:
            self.writes += 1
            self.policy = replace(self.policy, status=decided.status)
        self.events += [(self.now, event) for event in decided.events]
        self.wishes = [wish for wish in self.wishes if wish not in decided.done]
        if not self.phases or self.phases[-1] is not decided.status.phase:
            self.phases.append(decided.status.phase)

    def push(self, decided: Plan) -> None:
        """Send a plan's pushes."""
        for name, push in decided.pushes.items():
            answer = self.pool.push(name, push, self.now)
            match answer:
                case Refused():
                    self.refusals.append((self.now, name, answer))
                case Accepted() | Unreachable():
                    pass

    def until(self, reached: Callable[[], bool], limit: int = 400) -> None:
        """Step until something holds; fail after `limit` ticks."""
        for _ in range(limit):
            if reached():
                return
            self.step()
        raise AssertionError(f"not reached in {limit} ticks; {self.phase}: {self.status.waiting_for}")

    def until_phase(self, *phases: Phase, limit: int = 400) -> None:
        """Step until the policy is in one of some phases."""
        self.until(lambda: self.phase in phases, limit)

    def until_ended(self, number: int = 1, limit: int = 600) -> None:
        """Step until so many experiments have ended and the policy rests."""
        self.until(lambda: len(self.status.trials) >= number and self.status.experiment is None, limit)

    def steps(self, count: int) -> None:
        """Step so many times."""
        for _ in range(count):
            self.step()

    def away(self, seconds: float) -> None:
        """Let time pass without a control plane; the next has a higher token."""
        self.now += seconds
        self.token += 1

    def wish(self, verb: Verb, target: str = "", config: CacheConfig | None = None) -> None:
        """Leave a user's command."""
        self.wishes.append(
            Command(id=f"{len(self.wishes)}-{self.now}", verb=verb, target=target, config=config)
        )

    def edit(self, spec: PolicySpec) -> None:
        """Change the policy as a user does."""
        generation = (self.policy.metadata.generation or 0) + 1
        self.policy = replace(
            self.policy, spec=spec, metadata=replace(self.policy.metadata, generation=generation)
        )

    def condition(self, kind: ConditionType) -> Condition:
        """One condition of the status."""
        return next(c for c in self.status.conditions if c.type is kind)

    def told(self, reason: Reason) -> list[str]:
        """Messages of all events with a reason."""
        return [event.message for _, event in self.events if event.reason is reason]

    def running(self) -> dict[str, tuple[Role, CacheConfig]]:
        """What every agent runs now, leases that have ended taken into account."""
        found = {}
        for name in self.pool.names():
            report = self.pool.report(name, self.now)
            if isinstance(report, Report):
                found[name] = (report.running.role, report.running.config)
        return found

    def exposed(self) -> set[str]:
        """Agents that run a candidate now."""
        return {name for name, (role, _) in self.running().items() if role is Role.CANDIDATE}

    def all_run(self, config: CacheConfig) -> bool:
        """Whether every agent that answers runs this as its incumbent, without a lease."""
        return all(found == (Role.INCUMBENT, config) for found in self.running().values())

    def outcome(self) -> str:
        """How the newest experiment ended."""
        record = self.experiment.status
        return f"{record.outcome}({record.reason})"


def _agent(name: str, answer: Report | Unreachable) -> AgentSeen:
    if isinstance(answer, Report):
        return AgentSeen(name=name, report=answer)
    return AgentSeen(name=name, report=None, trouble=answer.message)


def loop(
    surface: Surface | None = None,
    *,
    spec: PolicySpec = DEFAULT_SPEC,
    agents: int = 6,
    seed: int = 1,
    tick: float = 10.0,
    settings: PoolSettings | None = None,
    config: CacheConfig = START,
) -> Loop:
    """A policy over a new pool. The noise of a Delta over 60 s is about .007."""
    settings = settings or PoolSettings(agents=agents, seed=seed, noise_sd=0.005, share_sd=0.005)
    pool = Pool(settings, surface=surface or flat(), config=config)
    policy = KVCachePolicy(metadata=Metadata(name="chat", uid="uid-chat", generation=1), spec=spec)
    return Loop(pool=pool, policy=policy, tick=tick)


def experimenting(
    phase: Phase, surface: Surface | None = None, *, spec: PolicySpec = DEFAULT_SPEC, seed: int = 1
) -> Loop:
    """A loop that has come to a phase of its first experiment."""
    found = loop(surface or gaining(), spec=spec, seed=seed)
    found.until_phase(phase)
    return found


def rests(found: Loop) -> bool:
    """Whether the policy is in a resting phase."""
    return found.phase in RESTING


def key(rows: Sequence[Row]) -> list[tuple[int, int, int, int, bool]]:
    """Which epoch each row is of, with its coin."""
    return [(row.block, row.attempt, row.epoch, row.pair, row.coin) for row in rows]
