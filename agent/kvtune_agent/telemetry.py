"""An agent's metrics: the counters of the newest closed grid time, under vLLM's names where vLLM has one.

Called by app.py for `GET /metrics`. A counter that the engine does not keep, or not yet, is absent and never
zero."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kvtune_agent.agent import Agent
from kvtune_agent.engine import Snapshot
from kvtune_api.knobs import Knob, point
from kvtune_api.names import LABEL_EVICTION_POLICY, LABEL_KIND, LABEL_REASON
from kvtune_api.names import Metric as Name
from kvtune_api.wire import Histogram, Role, Running

LABEL_MODEL = "model_name"


def registry_of(agent: Agent) -> CollectorRegistry:
    """A registry of one agent's metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentCollector(agent))
    return registry


class AgentCollector(Collector):
    """Read an agent at the time of the scrape."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        """Every metric family."""
        agent = self._agent
        running = agent.running()
        yield _info(agent, running)
        yield _gauge(
            Name.AGENT_STARTED_AT, "Engine time at which the counters began.", agent.engine.started_at
        )
        yield from _configuration(running)
        yield from _fallback(agent)
        used = agent.engine.host_used_bytes()
        if used is not None:
            yield _gauge(Name.AGENT_HOST_USED, "Host memory that holds blocks.", used)
        yield _counter(Name.AGENT_LEASE_LAPSES, "Candidate leases that ran out.", running.lease_lapses)
        refused = CounterMetricFamily(Name.AGENT_REFUSED, "Pushes refused.", labels=[LABEL_REASON])
        for reason, count in sorted(agent.refused.items()):
            refused.add_metric([reason], count)
        yield refused
        snapshot = agent.engine.newest()
        if snapshot is not None:
            yield from _engine_counters(snapshot, agent.engine.model_name)


def _info(agent: Agent, running: Running) -> Metric:
    labels = {
        "agent": agent.name,
        "version": agent.engine.version,
        "engine": agent.engine.name,
        "role": str(running.role),
    }
    family = GaugeMetricFamily(Name.AGENT_INFO, "What this agent is.", labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family


def _fallback(agent: Agent) -> Iterator[Metric]:
    fallen = float(agent.engine.fallback is not None)
    yield _gauge(Name.AGENT_FALLBACK, "1 while LRU runs in place of the policy asked for.", fallen)
    falls = CounterMetricFamily(Name.AGENT_FALLBACKS, "Fallbacks to LRU.", labels=[LABEL_REASON])
    for reason, count in sorted(agent.engine.fallbacks.items()):
        falls.add_metric([reason], count)
    yield falls


def _configuration(running: Running) -> Iterator[Metric]:
    values = point(running.config)
    for name, knob, text in (
        (Name.AGENT_CONFIG_TTL, Knob.CACHE_TTL, "Idle time after which a block is freed."),
        (Name.AGENT_CONFIG_RATIO, Knob.EVICTION_RATIO, "Share of a tier that one eviction pass frees."),
        (Name.AGENT_CONFIG_HOST, Knob.HOST_MEMORY, "Host memory given to blocks."),
        (Name.AGENT_STORE_THRESHOLD, Knob.STORE_THRESHOLD, "Blocks asked for that often are stored."),
    ):
        if knob in values:
            yield _gauge(name, text, values[knob])
    if running.config.eviction_policy is not None:
        family = GaugeMetricFamily(
            Name.AGENT_EVICTION_POLICY, "The eviction policy asked for.", labels=[LABEL_EVICTION_POLICY]
        )
        family.add_metric([str(running.config.eviction_policy)], 1)
        yield family
    yield _gauge(Name.AGENT_ROLE, "1 while a candidate is in force.", float(running.role is Role.CANDIDATE))
    yield _gauge(Name.AGENT_GENERATION, "Generation of the last accepted push.", running.generation)
    if running.lease_remaining_seconds is not None:
        yield _gauge(Name.AGENT_LEASE, "Wall time left of the lease.", running.lease_remaining_seconds)


def _engine_counters(snapshot: Snapshot, model: str) -> Iterator[Metric]:
    counters = snapshot.counters
    device, lower, prompt = snapshot.device_hit_tokens, snapshot.lower_hit_tokens, counters.prompt_tokens
    beyond = prompt - device if prompt is not None and device is not None else None
    yield _gauge(Name.AGENT_COUNTERS_AT, "Engine time that the counters are of.", counters.at)
    for name, text, value in (
        (Name.VLLM_REQUESTS, "Requests served.", counters.requests),
        (Name.VLLM_PROMPT_TOKENS, "Prompt tokens.", prompt),
        (Name.VLLM_DEVICE_QUERIES, "Tokens looked up on the device.", prompt),
        (Name.VLLM_DEVICE_HITS, "Tokens hit on the device.", device),
        (Name.VLLM_EXTERNAL_QUERIES, "Tokens looked up below the device.", beyond),
        (Name.VLLM_EXTERNAL_HITS, "Tokens hit below the device.", lower),
        (Name.AGENT_EVICTION_PASSES, "Eviction passes below the device.", counters.eviction_passes),
        (Name.AGENT_BYTES_DOWN, "Bytes written below the device.", counters.bytes_down),
        (Name.AGENT_ERRORS, "Requests that failed.", counters.errors),
        (Name.AGENT_NEW_ROOTS, "Session roots not seen in the last hour.", counters.new_session_roots),
        (Name.AGENT_STALL, "Time that eviction passes stalled serving.", snapshot.stall_seconds),
    ):
        if value is not None:
            yield _counter(name, text, value, model)
    yield from _by_kind(snapshot, model)
    if snapshot.evicted_blocks:
        yield _evicted(snapshot, model)
    for name, text, histogram in (
        (Name.VLLM_TTFT, "Time to first token.", counters.ttft),
        (Name.VLLM_QUEUE_TIME, "Time waiting to be served.", snapshot.queue_seconds),
    ):
        if histogram is not None:
            yield _histogram(name, text, histogram, model)


def _by_kind(snapshot: Snapshot, model: str) -> Iterator[Metric]:
    for name, text, values in (
        (Name.AGENT_KIND_REQUESTS, "Requests served, by kind.", [one.requests for one in snapshot.kinds]),
        (Name.AGENT_KIND_PROMPT, "Prompt tokens, by kind.", [one.prompt_tokens for one in snapshot.kinds]),
        (Name.AGENT_KIND_HITS, "Tokens hit anywhere, by kind.", [one.hit_tokens for one in snapshot.kinds]),
    ):
        family = CounterMetricFamily(name, text, labels=[LABEL_MODEL, LABEL_KIND])
        for one, value in zip(snapshot.kinds, values, strict=True):
            family.add_metric([model, str(one.kind)], value)
        yield family


def _evicted(snapshot: Snapshot, model: str) -> Metric:
    family = CounterMetricFamily(
        Name.AGENT_EVICTED_BLOCKS, "Blocks evicted below the device.", labels=[LABEL_MODEL, LABEL_REASON]
    )
    for reason, count in snapshot.evicted_blocks.items():
        family.add_metric([model, reason], count)
    return family


def _gauge(name: Name, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: Name, text: str, value: float, model: str | None = None) -> Metric:
    if model is None:
        return CounterMetricFamily(name, text, value=value)
    family = CounterMetricFamily(name, text, labels=[LABEL_MODEL])
    family.add_metric([model], value)
    return family


def _histogram(name: Name, text: str, histogram: Histogram, model: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[LABEL_MODEL])
    bounds = (*(_bound(bound) for bound in histogram.bounds), "+Inf")
    buckets = list(zip(bounds, histogram.counts, strict=True))
    family.add_metric([model], buckets=buckets, sum_value=histogram.sum)
    return family


def _bound(bound: float) -> str:
    """A bucket's bound as prometheus clients write it: always with a point."""
    return repr(float(bound))
