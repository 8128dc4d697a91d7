"""The article's rule as a controller that changes every agent untested: the bench's baseline alone."""

from dataclasses import dataclass, field

from kvtune_api.knobs import CacheConfig, written
from kvtune_api.knobs import point as point_of
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Counters, Push, Role
from kvtune_tuner.configs import same_config
from kvtune_tuner.draft import sample
from kvtune_tuner.effect import Prices, hit_rate, objective
from kvtune_tuner.proportional import Rule, proportional_controller
from kvtune_tuner.proposal import Service
from kvtune_tuner.sli import Missing, WindowCounts, increase, pooled
from kvtune_tuner.space import live_knobs, space_of
from kvtune_tuner.ttft import quantile_bounds
from tests.benchmarks.replay_pool import ReplayPool

EVERY_SECONDS = 60.0
SPAN_SECONDS = 60.0
KEPT_WINDOWS = 60


@dataclass(slots=True, kw_only=True)
class Controller:
    """Every minute: look at the last minute of the pool, apply the rule, push to every agent."""

    pool: ReplayPool
    policy: KVCachePolicy
    now: float
    over: bool = False
    windows: list[tuple[WindowCounts, float]] = field(default_factory=list)
    """The last windows of the pool, with the GiB configured in them."""

    current: CacheConfig | None = None
    generation: int = 0

    def step(self) -> None:
        """One step of the rule."""
        names = self.pool.names()
        first = self.pool.report(names[0], self.now)
        current = self.current or first.running.config
        host = current.tiers.host_memory
        seen = self._window()
        if seen is not None:
            self.windows = [*self.windows, (seen, host.gib if host else 0.0)][-KEPT_WINDOWS:]
            self._apply(current, seen)
        self.now += EVERY_SECONDS

    def _window(self) -> WindowCounts | None:
        found = []
        for name in self.pool.names():
            start, end = (
                self.pool.counters(name, at, self.now) for at in (self.now - SPAN_SECONDS, self.now)
            )
            if not isinstance(start, Counters) or not isinstance(end, Counters):
                return None
            a, b = sample(start), sample(end)
            assert not isinstance(a, Missing) and not isinstance(b, Missing)
            window = increase(a, b)
            if not isinstance(window, Missing):
                found.append(window)
        together = pooled(found)
        return None if isinstance(together, Missing) else together

    def _apply(self, current: CacheConfig, seen: WindowCounts) -> None:
        spec = self.policy.spec
        target = spec.targets.ttft
        bounds = quantile_bounds(seen, target.quantile) if target else None
        ttft = None if bounds is None or isinstance(bounds, Missing) else bounds.high_s or bounds.low_s
        rate = hit_rate(seen)
        service = Service(hit_rate=None if isinstance(rate, Missing) else rate, ttft_seconds=ttft)
        space = space_of(spec, live_knobs([self.pool.report(name, self.now) for name in self.pool.names()]))
        wanted = proportional_controller(Rule(), space, spec.targets, service, current)
        self.current = wanted
        if same_config(wanted, current):
            return
        self.generation += 1
        for name in self.pool.names():
            push = Push(
                role=Role.INCUMBENT, generation=self.generation, token=1, policy_uid="bench", config=wanted
            )
            self.pool.push(name, push, self.now)

    def measured(self, price_memory: float) -> float:
        """Mean objective over the last hour."""
        prices = Prices(memory=price_memory, eviction_pass=1.0, bytes_down=0.0)
        agents = len(self.pool.names())
        values = []
        for window, gib in self.windows:
            value = objective(_per_agent(window, agents), gib_configured=gib, prices=prices)
            if not isinstance(value, Missing):
                values.append(value)
        return sum(values) / len(values)

    @property
    def shown(self) -> str:
        """What it runs now."""
        values = point_of(self.current) if self.current else {}
        return ", ".join(f"{knob} {written(knob, value)}" for knob, value in values.items())


def _per_agent(window: WindowCounts, agents: int) -> WindowCounts:
    """Passes of an average agent; rates of tokens are the same for the pool."""
    return WindowCounts(
        seconds=window.seconds,
        requests=window.requests,
        prompt_tokens=window.prompt_tokens,
        hit_tokens=window.hit_tokens,
        eviction_passes=None if window.eviction_passes is None else window.eviction_passes / agents,
        bytes_down=None if window.bytes_down is None else window.bytes_down / agents,
    )
