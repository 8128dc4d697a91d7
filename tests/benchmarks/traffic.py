"""The workloads of the bench: generated chat at two rates, and the Mooncake trace when it is there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from kvtune_api import codec
from kvtune_api.knobs import CacheConfig, Tiers
from kvtune_api.policy import KVCachePolicy, Mode, Strategy
from kvtune_api.units import Duration, Quantity
from kvtune_cache.constants import H100_LLAMA8B, H100_LLAMA8B_512, EngineConstants
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.generator import generate
from kvtune_lab.readers.mooncake import repeat_mooncake
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request

AGENTS = 6
TRACE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "mooncake_conversation_trace.jsonl.gz"
PASS_SECONDS = 3540.0
"""About the length of one pass of the trace: another seed begins at another time of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Traffic with the bounds and prices under which its best configuration lies inside the bounds."""

    name: str
    rate: float | None
    """Requests per second and agent of generated chat; None: the trace."""

    host_gib: tuple[float, float]
    working_set_gib: float
    """Touched by an agent within the longest TTL and more: starts are shares of it."""

    price_memory: float
    constants: EngineConstants
    limit_seconds: float
    """Of the TTFT target: prompts of the trace take .65 s on average to prefill, so 1 s there."""

    window: str
    min_requests: int
    virtual_seconds: float
    """Length of one run."""

    def requests(self, seed: int) -> Iterator[Request]:
        """Requests of all agents from second 0 on, without an end."""
        if self.rate is not None:
            return generate(requests_per_second=AGENTS * self.rate, seed=seed)
        return _later(repeat_mooncake(TRACE), seed * PASS_SECONDS / 20)

    def policy(self, start: CacheConfig, strategy: Strategy, *, mode: Mode = Mode.AUTO) -> KVCachePolicy:
        """Prices and bounds of experiments.md 9, scaled to this workload's working set."""
        return policy_of(self._knobs(start), {**self._given(), "strategy": str(strategy), "mode": str(mode)})

    def policy_document(self, start: CacheConfig) -> dict[str, dict[str, object]]:
        """The same as a document with the default strategy."""
        return {"metadata": {"name": "bench"}, "spec": {**self._given(), "knobs": self._knobs(start)}}

    def unwashed_policy(self, start: CacheConfig, washout: str) -> KVCachePolicy:
        """The default strategy, with a washout of this length whatever the caches hold."""
        given = self._given()
        given["experiment"]["washout"] = {"min": washout, "max": washout}
        return policy_of(self._knobs(start), given)

    def host_only_policy(self, start: CacheConfig, step: float) -> KVCachePolicy:
        """The ladder on the host tier alone: down from here to a quarter, step by step."""
        host = start.tiers.host_memory
        assert host is not None, "a start is complete"
        size = {"min": f"{host.gib * 1024 / 4:.0f}Mi", "max": str(host), "start": str(host),
                "largestStep": step}  # fmt: skip
        return policy_of({"tiers": {"hostMemory": size}}, {**self._given(), "strategy": "Ladder"})

    def _given(self) -> dict[str, dict[str, object]]:
        return {
            "targets": {"ttft": {"quantile": 0.9, "limit": f"{self.limit_seconds * 1000:.0f}ms"}},
            "objective": {"prices": {"memory": self.price_memory, "evictionPass": 1}},
            "experiment": {
                "cooldown": "0s",
                "window": {"min": self.window, "max": "10m"},
                "minRequests": self.min_requests,
            },
        }

    def _knobs(self, start: CacheConfig) -> dict[str, object]:
        low, high = (f"{gib * 1024:.0f}Mi" for gib in self.host_gib)
        ttl, ratio, host = str(start.cache_ttl), start.eviction_ratio, str(start.tiers.host_memory)
        return {
            "cacheTTL": {"min": "30s", "max": "600s", "start": ttl, "largestStep": 4},
            "evictionRatio": {"min": 0.05, "max": 0.3, "start": ratio, "largestStep": 4},
            "tiers": {"hostMemory": {"min": low, "max": high, "start": host, "largestStep": 4}},
        }

    def start(self, share: float, ttl_seconds: float = 30.0, ratio: float = 0.3) -> CacheConfig:
        """A start whose host tier is a share of the working set, within the bounds."""
        low, high = self.host_gib
        return config_of(ttl_seconds, ratio, min(max(share * self.working_set_gib, low), high))

    def settings(self, config: CacheConfig) -> CacheSettings:
        """A complete configuration as a serving model takes it."""
        host = config.tiers.host_memory
        assert config.cache_ttl is not None and config.eviction_ratio is not None and host is not None
        return CacheSettings(
            ttl_seconds=config.cache_ttl.seconds,
            eviction_ratio=config.eviction_ratio,
            host_blocks=int(host.bytes // self.constants.block_bytes),
        )


def policy_of(knobs: Mapping[str, object], given: Mapping[str, object]) -> KVCachePolicy:
    """A policy of the bench, from the fields of its spec."""
    metadata = {"name": "bench", "uid": "bench", "generation": 1}
    return codec.parse(KVCachePolicy, {"metadata": metadata, "spec": {**given, "knobs": dict(knobs)}})


def config_of(ttl_seconds: float, ratio: float, host_gib: float) -> CacheConfig:
    """A complete configuration."""
    host = Quantity.of(round(host_gib * 1024) * 2**20)
    return CacheConfig(
        cache_ttl=Duration.of(ttl_seconds), eviction_ratio=ratio, tiers=Tiers(host_memory=host)
    )


CHAT_5 = Workload(
    name="chat, 5 requests/s per agent",
    rate=5.0,
    host_gib=(14.0, 912.0),
    working_set_gib=1141.0,
    price_memory=0.05,
    constants=H100_LLAMA8B,
    limit_seconds=0.25,
    window="120s",
    min_requests=500,
    virtual_seconds=12_000.0,
)
CHAT_1 = Workload(
    name="chat, 1 request/s per agent",
    rate=1.0,
    host_gib=(2.8, 182.4),
    working_set_gib=228.2,
    price_memory=0.25,
    constants=H100_LLAMA8B,
    limit_seconds=0.25,
    window="120s",
    min_requests=500,
    virtual_seconds=43_200.0,
)
MOONCAKE = Workload(
    name="Mooncake conversation trace, repeated",
    rate=None,
    host_gib=(14.0, 912.0),
    working_set_gib=1141.0,
    price_memory=0.05,
    constants=H100_LLAMA8B_512,
    limit_seconds=1.0,
    window="300s",
    min_requests=300,
    virtual_seconds=43_200.0,
)
WORKLOADS = (CHAT_5, CHAT_1, MOONCAKE)


def present() -> tuple[Workload, ...]:
    """The workloads that can be run here."""
    return tuple(workload for workload in WORKLOADS if workload.rate is not None or TRACE.exists())


def _later(requests: Iterator[Request], skip_seconds: float) -> Iterator[Request]:
    for request in requests:
        if request.arrival_s >= skip_seconds:
            yield request._replace(arrival_s=request.arrival_s - skip_seconds)


def by_agent(requests: Iterator[Request], seconds: float, *, agents: int) -> list[list[Request]]:
    """The first seconds of the traffic of the first agents, sessions sticky, for a static evaluation."""
    sticky = StickyAssignment(AGENTS)
    found: list[list[Request]] = [[] for _ in range(agents)]
    for request in takewhile(lambda one: one.arrival_s < seconds, requests):
        agent = sticky.agent_of(request.root, request.arrival_s)
        if agent < agents:
            found[agent].append(request)
    return found
