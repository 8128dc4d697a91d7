"""A small simulated pool of agents, deterministic by seed and cheap: fakes of the Agents and Metrics ports.

Pushes obey the fencing and lease rules of docs/architecture.md; faults are switches on `SimAgent`. Times are
engine seconds; nothing moves by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import (
    GRID_SECONDS,
    Counters,
    Geometry,
    KnobSupport,
    Push,
    Report,
    ReuseAges,
    Role,
    Running,
)
from kvtune_operator.ports import Accepted, Clock, Discovered, Refused, Unreachable
from kvtune_tuner.model import PoolSeen
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.responses import Surface, flat
from tests.fakes.sim import Life, PoolSettings, SimAgent
from tests.fakes.spans import Noise

GEOMETRY = Geometry(block_tokens=128, block_bytes=16 * 2**20, device_blocks=4096)


class Pool:
    """A pool of simulated agents behind one surface. All methods take the time."""

    def __init__(
        self,
        settings: PoolSettings,
        *,
        surface: Surface | None = None,
        config: CacheConfig,
        reuse: Callable[[str, float], ReuseAges] | None = None,
    ) -> None:
        """`config` is what every agent runs at the start; `reuse(agent, now)` answers for reuse ages."""
        self.settings = settings
        self._surface = lru_cache(maxsize=None)(surface or flat())
        self._reuse = reuse
        self._common = Noise(settings.seed, 1)
        self.agents: dict[str, SimAgent] = {}
        self.log: list[tuple[float, str, Push]] = []
        """Every push that was taken: time, agent, push."""

        for index in range(settings.agents):
            began = settings.start - settings.warm_seconds
            self.join(f"http://127.0.0.1:{9000 + index}", config=config, now=began)

    def join(self, name: str, *, config: CacheConfig, now: float, index: int | None = None) -> SimAgent:
        """Add an agent that starts at `now`; `index`, or else the name's port, chooses its noise."""
        index = int(name.rsplit(":", 1)[-1]) if index is None else index
        life = Life(settings=self.settings, index=index, common=self._common, surface=self._surface)
        life.start(config, now)
        agent = SimAgent(name=name, started_at=now, incumbent=config, config=config, life=life)
        self.agents[name] = agent
        return agent

    def leave(self, name: str) -> None:
        """Remove an agent for good."""
        del self.agents[name]

    def restart(self, name: str, now: float) -> None:
        """Kill and start an agent: counters from zero, an empty ring, back on its stored incumbent."""
        agent = self.agents[name]
        self._settle(agent, now)
        agent.started_at = now
        agent.config, agent.role, agent.lease_ends = agent.incumbent, Role.INCUMBENT, None
        agent.life.start(agent.config, now)

    def set_traffic(self, now: float, *, request_rate: float, name: str | None = None) -> None:
        """Change the requests per second of one agent or of all, from the next grid time on."""
        for agent in [self.agents[name]] if name else self.agents.values():
            self._settle(agent, now)
            agent.life.change(agent.config, now, rate=request_rate)

    def set_errors(self, now: float, *, per_second: float, name: str) -> None:
        """Let an agent count errors, from the next grid time on."""
        agent = self.agents[name]
        self._settle(agent, now)
        agent.life.change(agent.config, now, errors_rate=per_second)

    def set_surface(self, now: float, surface: Surface) -> None:
        """Change what configurations do (the workload shifts), from the next grid time on."""
        self._surface = lru_cache(maxsize=None)(surface)
        for agent in self.agents.values():
            self._settle(agent, now)
            agent.life.surface = self._surface
            agent.life.change(agent.config, now)

    def names(self) -> tuple[str, ...]:
        """All agents, sorted."""
        return tuple(sorted(self.agents))

    def report(self, name: str, now: float) -> Report | Unreachable:
        """What `GET /v1/report` answers."""
        agent = self._answering(name)
        if isinstance(agent, Unreachable):
            return agent
        self._settle(agent, now)
        counters = self.newest(name, now)
        return Report(
            agent=name,
            version=agent.version or self.settings.version,
            engine="fake",
            clock=now,
            started_at=agent.started_at,
            running=self._running(agent, now),
            fallback=agent.fallback,
            supports=_support(agent.unsupported, agent.not_live),
            geometry=GEOMETRY,
            load=agent.life.load(now, agent.started_at),
            counters=counters if isinstance(counters, Counters) else None,
            missing=counters.reason if isinstance(counters, Missing) else None,
            reuse=self._reuse(name, now) if self._reuse else None,
        )

    def push(self, name: str, push: Push, now: float) -> Accepted | Refused | Unreachable:
        """What `PUT /v1/config` answers. A slow agent takes the push and answers too late."""
        agent = self.agents.get(name)
        if agent is None or agent.down:
            return Unreachable(message=f"{name}: connection refused")
        self._settle(agent, now)
        refusal = _refusal(agent, push)
        if refusal is None:
            self._take(agent, push, now)
        late = self._answering(name)
        return late if isinstance(late, Unreachable) else refusal or Accepted()

    def restore(self, name: str) -> Accepted | Refused | Unreachable:
        """What `POST /v1/eviction/restore` answers."""
        agent = self._answering(name)
        if isinstance(agent, Unreachable):
            return agent
        agent.fallback = None
        return Accepted()

    def newest(self, name: str, now: float) -> Counters | Missing:
        """The counters at the newest grid time."""
        return self.counters(name, now // GRID_SECONDS * GRID_SECONDS, now)

    def counters(self, name: str, at: float, now: float) -> Counters | Missing:
        """The counters at a grid time that has passed."""
        agent = self._answering(name)
        if isinstance(agent, Unreachable):
            return Missing(reason=MissingReason.UNREACHABLE, message=agent.message)
        if agent.missing is not None:
            return agent.missing
        if agent.nan:
            return Missing(reason=MissingReason.NAN, message=f"{name}: vllm:prompt_tokens_total is NaN")
        self._settle(agent, now)
        if at > now:
            return Missing(reason=MissingReason.NO_DATA, message=f"{name}: {at:g} s has not passed")
        if at < agent.started_at or at < now - self.settings.ring_seconds:
            message = f"{name}: no counters kept for {at:g} s"
            return Missing(reason=MissingReason.BOUND_MISSED, message=message)
        return agent.life.counters(at, agent.started_at)

    def _answering(self, name: str) -> SimAgent | Unreachable:
        agent = self.agents.get(name)
        if agent is None or agent.down:
            return Unreachable(message=f"{name}: connection refused")
        if agent.slow:
            return Unreachable(message=f"{name}: no answer within 2 s")
        return agent

    def _running(self, agent: SimAgent, now: float) -> Running:
        ends = agent.lease_ends
        return Running(
            role=agent.role,
            config=agent.config,
            incumbent=agent.incumbent,
            generation=agent.generation,
            token=agent.token,
            policy_uid=agent.policy_uid,
            lease_remaining_seconds=None if ends is None else (ends - now) / self.settings.speed,
            lease_lapses=agent.lapses,
            fallback_rules=agent.last_push.fallback_rules if agent.last_push is not None else None,
        )

    def _settle(self, agent: SimAgent, now: float) -> None:
        """Let a lease that has run out take effect at its own time."""
        if agent.lease_ends is not None and now >= agent.lease_ends:
            ended, agent.lease_ends = agent.lease_ends, None
            agent.config, agent.role, agent.lapses = agent.incumbent, Role.INCUMBENT, agent.lapses + 1
            agent.life.change(agent.config, ended)

    def _take(self, agent: SimAgent, push: Push, now: float) -> None:
        agent.pushes += 1
        self.log.append((now, agent.name, push))
        agent.generation, agent.token, agent.policy_uid = push.generation, push.token, push.policy_uid
        agent.last_push = push
        if agent.shrug:
            return
        changed = push.config != agent.config
        agent.config, agent.role = push.config, push.role
        if push.lease_seconds is None:
            agent.incumbent, agent.lease_ends = push.config, None
        else:
            agent.lease_ends = now + push.lease_seconds * self.settings.speed
        if changed:
            agent.life.change(agent.config, now)


@lru_cache(maxsize=64)
def _support(unsupported: frozenset[Knob], not_live: frozenset[Knob]) -> tuple[KnobSupport, ...]:
    return tuple(
        KnobSupport(knob=knob, live=knob not in not_live) for knob in Knob if knob not in unsupported
    )


def _refusal(agent: SimAgent, push: Push) -> Refused | None:
    """The fencing rule of docs/architecture.md, "One reconcile"."""
    if agent.refuses_token:
        return Refused(status=401, reason="Unauthorized", message=f"{agent.name}: wrong bearer token")
    unknown = sorted(set(point(push.config)) & agent.unsupported)
    if unknown:
        return Refused(status=422, reason="UnsupportedKnob", message=f"{unknown[0]}: not supported")
    if push.token < agent.token:
        return _stale("StaleToken", f"token {push.token} is lower than {agent.token}")
    if push.token > agent.token:
        return None
    if push.policy_uid != agent.policy_uid:
        if agent.role is not Role.CANDIDATE:
            return None
        return _stale("Leased", f"policy {agent.policy_uid} has a candidate under a lease")
    if push.generation < agent.generation:
        return _stale("StaleGeneration", f"generation {push.generation} is lower than {agent.generation}")
    if push.generation == agent.generation and not _same(push, agent.last_push):
        return _stale("GenerationReused", f"generation {push.generation} was sent with another body")
    return None


def _same(push: Push, last: Push | None) -> bool:
    """Whether a push repeats the last one; another lease is a renewal."""
    return last is not None and push.role is last.role and point(push.config) == point(last.config)


def _stale(reason: str, message: str) -> Refused:
    return Refused(status=409, reason=reason, message=message)


class FakeAgents:
    """Implement `ports.Agents` over a pool. `selector.addresses`, where given, chooses among the pool."""

    seen = PoolSeen()
    """What nodes and pods say; tests replace it."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def discover(self, policy: KVCachePolicy, *, also: Sequence[str] = ()) -> Discovered:
        """The pool's agents, or those that the policy names; of `also` those of the pool."""
        wanted = {address.rstrip("/") for address in policy.spec.selector.addresses}
        there = {name for name in also if name in self._pool.names()}
        found = wanted or set(self._pool.names())
        return Discovered(agents=tuple(sorted(found | there)), pool=self.seen)

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask the pool."""
        now = self._clock.now().timestamp()
        return {name: self._pool.report(name, now) for name in agents}

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Push to the pool."""
        now = self._clock.now().timestamp()
        return {name: self._pool.push(name, push, now) for name, push in pushes.items()}

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Ask the pool's agents."""
        return {name: self._pool.restore(name) for name in agents}


class FakeMetrics:
    """Implement `ports.Metrics` over a pool."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def newest(self, reports: Mapping[str, Report | Unreachable]) -> Mapping[str, Counters | Missing]:
        """The counters at the newest grid time."""
        now = self._clock.now().timestamp()
        return {name: self._pool.newest(name, now) for name in reports}

    async def counters_at(
        self, agents: Sequence[str], at: float, *, slack_seconds: float = 0.0
    ) -> Mapping[str, Counters | Missing]:
        """The counters at a grid time; the pool keeps them all, so slack is not needed."""
        now = self._clock.now().timestamp()
        return {name: self._pool.counters(name, at, now) for name in agents}
