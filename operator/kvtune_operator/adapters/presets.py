"""Which series count what, by engine and version: the one table of names that a Prometheus is asked for.

Sources of vLLM's names: vllm/v1/metrics/loggers.py and vllm/engine/metrics.py of the versions named. A
counter that a version does not keep is absent here and then missing, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvtune_api.names import Metric
from kvtune_api.sources import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The series of one counter: the first of `either` that exists, and the ones of `plus` that do."""

    either: tuple[str, ...]
    plus: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.either + self.plus


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What one engine exposes."""

    counters: Mapping[str, Series]
    """By field of `Counters`."""

    ttft: str
    started_at: str
    at: str | None = None
    """Gauge with the time that the counters are of; without one they are of the time of the scrape."""

    summed: frozenset[str] = frozenset()
    """Labels by which one engine has several series of a counter, which are added up."""

    def names(self, fields: frozenset[str]) -> tuple[str, ...]:
        """The series to ask for so that these fields are known."""
        found = [name for item, series in self.counters.items() if item in fields for name in series.names]
        if "ttft" in fields:
            found += [f"{self.ttft}_bucket", f"{self.ttft}_sum"]
        if "started_at" in fields:
            found.append(self.started_at)
        found += [self.at] if self.at else []
        return tuple(sorted({*found, *(name.replace(":", "_") for name in found)}))


def spelled(name: str) -> str:
    """A metric's name as the engine writes it.

    Python's prometheus_client (seen with 0.26) gives vLLM's names with `_` for `:` where OpenMetrics is asked
    for, as Prometheus does.
    """
    return name.replace("vllm_", "vllm:", 1) if name.startswith("vllm_") else name


def _total(metric: Metric) -> str:
    return f"{metric}_total"


_ENGINE_LABELS = frozenset({"model_name", "engine", "finished_reason"})
"""vLLM counts by model, by data-parallel engine, and requests also by how they ended."""

TABLES: Final[Mapping[Preset, Table]] = {
    Preset.AGENT: Table(
        counters={
            "requests": Series(either=(_total(Metric.VLLM_REQUESTS),)),
            "prompt_tokens": Series(either=(_total(Metric.VLLM_PROMPT_TOKENS),)),
            "hit_tokens": Series(
                either=(_total(Metric.VLLM_DEVICE_HITS),), plus=(_total(Metric.VLLM_EXTERNAL_HITS),)
            ),
            "eviction_passes": Series(either=(_total(Metric.AGENT_EVICTION_PASSES),)),
            "bytes_down": Series(either=(_total(Metric.AGENT_BYTES_DOWN),)),
            "errors": Series(either=(_total(Metric.AGENT_ERRORS),)),
            "new_session_roots": Series(either=(_total(Metric.AGENT_NEW_ROOTS),)),
        },
        ttft=Metric.VLLM_TTFT,
        started_at=Metric.AGENT_STARTED_AT,
        at=Metric.AGENT_COUNTERS_AT,
    ),
    # vLLM 0.10 and later: hits in tokens; the external ones exist with a KV connector only.
    Preset.VLLM_V1: Table(
        counters={
            "requests": Series(either=(_total(Metric.VLLM_REQUESTS),)),
            "prompt_tokens": Series(either=(_total(Metric.VLLM_PROMPT_TOKENS),)),
            "hit_tokens": Series(
                either=(_total(Metric.VLLM_DEVICE_HITS),), plus=(_total(Metric.VLLM_EXTERNAL_HITS),)
            ),
        },
        ttft=Metric.VLLM_TTFT,
        started_at=Metric.PROCESS_STARTED_AT,
        summed=_ENGINE_LABELS,
    ),
    # vLLM 0.8 and 0.9: "in terms of number of queried blocks", so hits over queries is a rate of blocks, and
    # queries stand for prompt tokens. Versions before have gauges of the rate only: no hits can be counted.
    Preset.VLLM_V0: Table(
        counters={
            "requests": Series(either=(_total(Metric.VLLM_REQUESTS),)),
            "prompt_tokens": Series(
                either=(_total(Metric.VLLM_OLD_QUERIES), _total(Metric.VLLM_PROMPT_TOKENS))
            ),
            "hit_tokens": Series(either=(_total(Metric.VLLM_OLD_HITS),)),
        },
        ttft=Metric.VLLM_TTFT,
        started_at=Metric.PROCESS_STARTED_AT,
        summed=_ENGINE_LABELS,
    ),
}

FIELDS: Final = frozenset(
    {
        "requests",
        "prompt_tokens",
        "hit_tokens",
        "eviction_passes",
        "bytes_down",
        "errors",
        "new_session_roots",
        "ttft",
        "started_at",
    }
)
