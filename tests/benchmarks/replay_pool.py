"""A pool of serving models in this process, fed by a workload: what real agents answer, without HTTP.

Counters are kept at every 5 s of the engine's clock and a push acts at its own time, as in the agent's replay
engine, whose rows and reuse window it uses. Nothing here refuses, fails or is late. Times are engine seconds.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kvtune_agent.engines.grid import GridRows
from kvtune_agent.engines.reuse_window import ReuseWindow
from kvtune_agent.engines.rows import (
    DEVICE_HITS,
    HOST_HITS,
    PROMPT,
    REQUESTS,
    QueueTimes,
    row_of,
    snapshot_of,
)
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.wire import (
    GRID_SECONDS,
    Counters,
    Geometry,
    KnobSupport,
    Load,
    Push,
    Report,
    ReuseAges,
    Role,
    Running,
)
from kvtune_cache.serving import ServingModel
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request
from kvtune_operator.ports import Accepted
from kvtune_tuner.sli import Missing, MissingReason
from tests.benchmarks.loop import SPEED
from tests.benchmarks.traffic import AGENTS, Workload, config_of

ORIGIN = 1_893_456_000.0
"""Engine second at which a run begins (2030-01-01)."""

WARM_SECONDS = 1200.0
"""Traffic before the origin, as the demo's driver feeds it."""

KEEP_SECONDS = 14_400.0
LOAD_SECONDS = 300
SPAN_SECONDS = 600.0
"""Requests are made for so long at once; all pools that share them are brought to the end of it."""

SUPPORTS = tuple(KnobSupport(knob=knob, live=True) for knob in Knob)


@dataclass(slots=True, kw_only=True)
class Agent:
    """One serving model with its configuration and counters."""

    model: ServingModel
    own: CacheConfig
    """What it started with: stands in for knobs that a push does not set."""

    incumbent: CacheConfig
    config: CacheConfig
    role: Role = Role.INCUMBENT
    generation: int = 0
    token: int = 0
    policy_uid: str = ""
    lease_ends: float | None = None
    grid: GridRows = field(default_factory=lambda: GridRows(KEEP_SECONDS))
    reuse: ReuseWindow = field(default_factory=ReuseWindow)
    known: dict[float, Counters] = field(default_factory=dict)


class Driven(Protocol):
    """A loop over a replay pool."""

    @property
    def pool(self) -> "ReplayPool":
        """Its pool."""
        ...

    @property
    def now(self) -> float:
        """Engine seconds of its next step."""
        ...

    @property
    def over(self) -> bool:
        """Whether it has seen enough."""
        ...

    def step(self) -> None:
        """Do one step and move on."""
        ...


_NO_QUEUE = QueueTimes()


class ReplayPool:
    """Six agents with one start configuration. `feed` gives requests, every question moves time on."""

    def __init__(self, workload: Workload, config: CacheConfig) -> None:
        """Start empty, WARM_SECONDS before ORIGIN."""
        self._workload = workload
        self._began = ORIGIN - WARM_SECONDS
        self._sticky = StickyAssignment(AGENTS)
        self._pending: deque[Request] = deque()
        self._closed = self._began
        self._served = self._began
        self.agents = {
            f"http://127.0.0.1:{9000 + index}": Agent(
                model=ServingModel(workload.constants, workload.settings(config)),
                own=config,
                incumbent=config,
                config=config,
            )
            for index in range(AGENTS)
        }
        self._in_turn = tuple(self.agents.values())
        for agent in self._in_turn:
            agent.reuse.note(self._began, agent.model.reuse.snapshot())
            agent.grid.close(int(self._began), row_of(agent.model, _NO_QUEUE))

    def feed(self, requests: Iterable[Request]) -> None:
        """Take requests that come after all before; arrivals are seconds of the workload."""
        self._pending.extend(requests)

    def advance(self, now: float) -> None:
        """Serve everything that arrives until `now` and close the grid times until then."""
        if now < self._closed + GRID_SECONDS and now <= self._served:
            return
        self._served = now
        while self._closed + GRID_SECONDS <= now:
            self._serve(self._closed + GRID_SECONDS)
            self._closed += GRID_SECONDS
            self._close(self._closed)
        self._serve(now)

    def _serve(self, until: float) -> None:
        pending, in_turn, agent_of, began = self._pending, self._in_turn, self._sticky.agent_of, self._began
        while pending and pending[0].arrival_s + began <= until:
            request = pending.popleft()
            agent = in_turn[agent_of(request.root, request.arrival_s)]
            agent.model.serve(request.arrival_s + began, request.blocks, request.prompt_tokens, request.root)

    def _close(self, at: float) -> None:
        for agent in self._in_turn:
            agent.model.advance(at)
            agent.grid.close(int(at), row_of(agent.model, _NO_QUEUE))
            if agent.reuse.is_due(at):
                agent.reuse.note(at, agent.model.reuse.snapshot())

    def names(self) -> tuple[str, ...]:
        """All agents, sorted."""
        return tuple(sorted(self.agents))

    def report(self, name: str, now: float) -> Report:
        """What `GET /v1/report` answers."""
        self.advance(now)
        agent, constants = self.agents[name], self._workload.constants
        counters = self.newest(name, now)
        return Report(
            agent=name,
            version="bench",
            engine="replay",
            clock=now,
            started_at=self._began,
            running=self._running(agent, now),
            supports=SUPPORTS,
            geometry=Geometry(
                block_tokens=constants.block_tokens,
                block_bytes=constants.block_bytes,
                device_blocks=constants.device_blocks,
            ),
            load=self._load(agent),
            counters=counters if isinstance(counters, Counters) else None,
            reuse=self._reuse(agent),
        )

    def _running(self, agent: Agent, now: float) -> Running:
        left = None if agent.lease_ends is None else (agent.lease_ends - now) / SPEED
        if left is not None and left <= 0:
            raise RuntimeError(f"a lease ended at {agent.lease_ends}: the loop's jumps are too long")
        return Running(
            role=agent.role,
            config=agent.config,
            incumbent=agent.incumbent,
            generation=agent.generation,
            token=agent.token,
            policy_uid=agent.policy_uid,
            lease_remaining_seconds=left,
        )

    def _load(self, agent: Agent) -> Load:
        newest = agent.grid.newest_at
        assert newest is not None
        first = agent.grid.row_at_or_after(newest - LOAD_SECONDS)
        last = agent.grid.row(newest)
        if first is None or last is None or first[0] == newest:
            return Load(span_seconds=0.0)
        span = newest - first[0]
        prompt = last[PROMPT] - first[1][PROMPT]
        hits = sum(last[column] - first[1][column] for column in (DEVICE_HITS, HOST_HITS))
        rate = (last[REQUESTS] - first[1][REQUESTS]) / span
        return Load(span_seconds=span, request_rate=rate, hit_rate=hits / prompt if prompt > 0 else None)

    def _reuse(self, agent: Agent) -> ReuseAges | None:
        return agent.reuse.ages(agent.model.now_s, agent.model.reuse.snapshot())

    def push(self, name: str, push: Push, now: float) -> Accepted:
        """Take a configuration at once."""
        self.advance(now)
        agent = self.agents[name]
        agent.role, agent.config = push.role, push.config
        agent.generation, agent.token, agent.policy_uid = push.generation, push.token, push.policy_uid
        agent.lease_ends = None if push.lease_seconds is None else now + push.lease_seconds * SPEED
        if push.role is Role.INCUMBENT:
            agent.incumbent = push.config
        agent.model.reconfigure(self._workload.settings(_complete(push.config, agent.own)), now)
        return Accepted()

    def newest(self, name: str, now: float) -> Counters | Missing:
        """The counters at the newest grid time."""
        return self.counters(name, now // GRID_SECONDS * GRID_SECONDS, now)

    def counters(self, name: str, at: float, now: float) -> Counters | Missing:
        """The counters at a grid time that has passed."""
        self.advance(now)
        agent = self.agents[name]
        found = agent.known.get(at)
        if found is None:
            row = agent.grid.row(at)
            if row is None:
                return Missing(reason=MissingReason.BOUND_MISSED, message=f"{name}: no counters for {at:g} s")
            found = snapshot_of(row, at=at, started_at=self._began).counters
            if len(agent.known) > 400:
                agent.known.clear()
            agent.known[at] = found
        return found


def _complete(config: CacheConfig, own: CacheConfig) -> CacheConfig:
    values = {**point(own), **point(config)}
    return config_of(values[Knob.CACHE_TTL], values[Knob.EVICTION_RATIO], values[Knob.HOST_MEMORY] / 2**30)


def driven(loops: Sequence[Driven], requests: Iterator[Request], seconds: float) -> None:
    """Run several loops over one stream of requests until each is over or `seconds` have passed."""
    for number, span in enumerate(spans(requests, SPAN_SECONDS), start=1):
        until = ORIGIN - WARM_SECONDS + SPAN_SECONDS * number
        going = [one for one in loops if not one.over]
        for one in going:
            one.pool.feed(span)
            one.pool.advance(min(until, ORIGIN))
            while not one.over and one.now < min(until, ORIGIN + seconds):
                one.step()
        if not going or until >= ORIGIN + seconds:
            return


def spans(requests: Iterator[Request], seconds: float) -> Iterator[list[Request]]:
    """Cut a workload into spans of equal length, so that several pools can share it."""
    span: list[Request] = []
    end = seconds
    for request in requests:
        while request.arrival_s >= end:
            yield span
            span, end = [], end + seconds
        span.append(request)
