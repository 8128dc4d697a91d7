"""A real Prometheus over samples that a test has written: exact values at exact times, by promtool."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtune_api.codec import parse
from kvtune_api.names import Metric
from kvtune_api.sources import PrometheusSource
from kvtune_operator.adapters.credentials import no_credentials
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.sources import resolved
from tools.controlplane.prometheus import program

EVERY = 15.0
"""Seconds between scrapes."""

Labels = Mapping[str, str]
Values = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""What one scrape gives: by metric and labels."""


@dataclass
class Recording:
    """Samples of scrapes, to be written into a store. Times are seconds since `base`."""

    base: float
    lines: list[str] = field(default_factory=list)

    def scrape(self, at: float, target: Labels, values: Values) -> None:
        """One scrape of one target."""
        for (name, labels), value in values.items():
            text = ",".join(f'{k}="{_escaped(v)}"' for k, v in (dict(labels) | dict(target)).items())
            shown = "NaN" if value != value else repr(float(value))
            self.lines.append(f"{name}{{{text}}} {shown} {self.base + at:.3f}")

    def store(self, folder: Path) -> None:
        """Make the data folder of a Prometheus."""
        folder.mkdir(parents=True, exist_ok=True)
        text = folder.parent / "samples.txt"
        text.write_text("\n".join([*sorted(self.lines, key=_series), "# EOF"]) + "\n")
        promtool = program("promtool")
        command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder), "-q"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def _series(line: str) -> tuple[str, float]:
    series, _, at = line.rpartition(" ")
    return series.rpartition(" ")[0], float(at)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def times(first: float, until: float, every: float = EVERY) -> Iterator[float]:
    """Moments of scrapes."""
    at = first
    while at < until:
        yield at
        at += every


def key(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A series as `Values` has it."""
    return name, tuple(sorted(labels.items()))


def agent_values(base: float, at: float, *, started: float = -600.0, rate: float = 10.0) -> Values:
    """What an agent exposes at a scrape: counters of the grid time before, growing by `rate` requests a
    second."""
    grid = at // 5 * 5
    served = rate * (grid - started)
    model = {"model_name": "m"}
    return {
        key(Metric.AGENT_COUNTERS_AT): base + grid,
        key(Metric.AGENT_STARTED_AT): base + started,
        key(f"{Metric.VLLM_REQUESTS}_total", **model): served,
        key(f"{Metric.VLLM_PROMPT_TOKENS}_total", **model): served * 100,
        key(f"{Metric.VLLM_DEVICE_HITS}_total", **model): served * 30,
        key(f"{Metric.VLLM_EXTERNAL_HITS}_total", **model): served * 20,
        key(f"{Metric.AGENT_ERRORS}_total", **model): served // 100,
        key(f"{Metric.VLLM_TTFT}_bucket", le="0.25", **model): served * 0.5,
        key(f"{Metric.VLLM_TTFT}_bucket", le="+Inf", **model): served,
        key(f"{Metric.VLLM_TTFT}_sum", **model): served * 0.2,
        key(f"{Metric.VLLM_TTFT}_count", **model): served,
    }


@dataclass(frozen=True)
class Recorded:
    """A Prometheus that holds a recording."""

    url: str
    base: float

    def metrics(self, namespace: str, *, at: float | None = None, **source: Any) -> PrometheusMetrics:
        """An adapter for a namespace whose newest usable moment is `at` seconds after the base."""
        now = WallClock().now
        settings: dict[str, Any] = {"address": self.url, **source}
        if at is not None:
            settings["scrapeDelay"] = f"{round((now().timestamp() - self.base - at) * 1000)}ms"
        return PrometheusMetrics(
            resolved(parse(PrometheusSource, settings), PrometheusSource()),
            _name,
            namespace,
            no_credentials,
            _still(now) if at is not None else now,
            monotonic=WallClock().monotonic,
        )


def _name(agent: str) -> str:
    return agent


def _still(now: Callable[[], Any]) -> Callable[[], Any]:
    """A clock that stands still at what it shows now: the server's own is not far from it."""
    shown = now()
    return lambda: shown
