"""What a Prometheus has recorded of pods to whom everything happens, and what the adapter makes of it."""

import math

from kvtune_api.names import Metric
from kvtune_api.wire import Counters
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.ports import Unreachable
from kvtune_tuner.sli import Missing
from tests.contracts.recorded import Recording, agent_values, key, times

END = 1200.0
"""Seconds after the base at which the recording ends; tests ask for moments before that."""

ODD = 'eu "west"\\1\nx'
"""A label's value in which everything must be escaped."""


def record(to: Recording) -> None:
    """Write what every namespace went through; each is one thing that happens."""
    for at in times(1.2, END):
        to.scrape(at, {"namespace": "good", "pod": "chat-1"}, agent_values(to.base, at))
        to.scrape(
            at + 3.3, {"namespace": "good", "pod": "chat-2"}, agent_values(to.base, at + 3.3, rate=20.0)
        )
        to.scrape(at, {"namespace": "odd", "pod": "a.b", "zone": ODD}, agent_values(to.base, at))
        to.scrape(at, {"namespace": "odd", "pod": "aXb", "zone": "other"}, agent_values(to.base, at))
        for job in ("agents", "pods"):
            target = {"namespace": "twins", "pod": "chat-1", "job": job}
            to.scrape(at + (0.5 if job == "pods" else 0.0), target, agent_values(to.base, at))
        for replica, gap in (("a", at > 600 and at < 640), ("b", False)):
            target = {"namespace": "pair", "pod": "chat-1", "prometheus_replica": replica}
            if not gap:
                to.scrape(at + (1.5 if replica == "b" else 0.0), target, agent_values(to.base, at))
        fresh = at >= 600
        values = agent_values(to.base, at, started=600.0 if fresh else -600.0)
        to.scrape(at, {"namespace": "reset", "pod": "chat-1", "instance": "new" if fresh else "old"}, values)
        nan = {key(f"{Metric.VLLM_PROMPT_TOKENS}_total", model_name="m"): math.nan}
        to.scrape(at, {"namespace": "nan", "pod": "chat-1"}, {**agent_values(to.base, at), **nan})
        if at < 300:
            to.scrape(at, {"namespace": "gone", "pod": "chat-1"}, agent_values(to.base, at))
        spelled = {
            (name.replace(":", "_"), labels): value
            for (name, labels), value in agent_values(to.base, at).items()
        }
        to.scrape(at, {"namespace": "spelled", "pod": "chat-1"}, spelled)
        to.scrape(at, {"namespace": "v1", "pod": "vllm-0"}, _vllm(at, new=True))
        to.scrape(at, {"namespace": "v0", "pod": "vllm-0"}, _vllm(at, new=False))


def _vllm(at: float, *, new: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    queries, hits = (
        (Metric.VLLM_DEVICE_QUERIES, Metric.VLLM_DEVICE_HITS)
        if new
        else (Metric.VLLM_OLD_QUERIES, Metric.VLLM_OLD_HITS)
    )
    found = {key(Metric.PROCESS_STARTED_AT): 1000.0}
    for engine in ("0", "1"):
        labels = {"model_name": "m", "engine": engine}
        for ended, share in (("stop", 3), ("length", 1)):
            found[key(f"{Metric.VLLM_REQUESTS}_total", finished_reason=ended, **labels)] = share * at
        found[key(f"{Metric.VLLM_PROMPT_TOKENS}_total", **labels)] = 1000 * at
        found[key(f"{queries}_total", **labels)] = 100 * at
        found[key(f"{hits}_total", **labels)] = 40 * at
        if new:
            found[key(f"{Metric.VLLM_EXTERNAL_HITS}_total", **labels)] = 10 * at
        for bound, share in (("0.1", 1), ("+Inf", 4)):
            found[key(f"{Metric.VLLM_TTFT}_bucket", le=bound, **labels)] = share * at
        found[key(f"{Metric.VLLM_TTFT}_sum", **labels)] = at
    return found


async def newest(metrics: PrometheusMetrics, *agents: str) -> dict[str, Counters | Missing]:
    """The newest counters, of agents that could not be asked themselves."""
    return dict(await metrics.newest({agent: Unreachable(message="not asked") for agent in agents}))


async def bound(metrics: PrometheusMetrics, agent: str, at: float, slack: float = 0.0) -> Counters | Missing:
    """The counters of one agent at a time."""
    return (await metrics.counters_at([agent], at, slack_seconds=slack))[agent]


def counters(found: Counters | Missing) -> Counters:
    """These counters, which must not be missing."""
    assert isinstance(found, Counters), found
    return found


def missing(found: Counters | Missing) -> Missing:
    """Why there are none, which must be so."""
    assert isinstance(found, Missing), found
    return found
