"""Prometheus text of one agent -> counters, or Missing with a reason.

Nothing is guessed: of several series neither the first nor the last is taken. Only lines that are needed, or
that nobody knows, reach the parser: it takes about 20 us a line (measured).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.names import Metric
from kvtune_api.wire import Counters, Histogram
from kvtune_tuner.sli import Missing, MissingReason

_REQUIRED = (
    Metric.AGENT_COUNTERS_AT,
    Metric.AGENT_STARTED_AT,
    Metric.VLLM_REQUESTS,
    Metric.VLLM_PROMPT_TOKENS,
)
_GAUGES = frozenset({Metric.AGENT_COUNTERS_AT, Metric.AGENT_STARTED_AT})
_OPTIONAL = (
    Metric.VLLM_DEVICE_HITS,
    Metric.VLLM_EXTERNAL_HITS,
    Metric.AGENT_EVICTION_PASSES,
    Metric.AGENT_BYTES_DOWN,
    Metric.AGENT_ERRORS,
    Metric.AGENT_NEW_ROOTS,
)
_TTFT_SUFFIXES = ("_bucket", "_sum")


def _series(metric: Metric) -> str:
    return metric if metric in _GAUGES else f"{metric}_total"


_WANTED = {
    *(_series(metric) for metric in (*_REQUIRED, *_OPTIONAL)),
    *(f"{Metric.VLLM_TTFT}{suffix}" for suffix in _TTFT_SUFFIXES),
}
_WANTED_STARTS = tuple(sorted(_WANTED))
_KNOWN_STARTS = ("#", "vllm:", "kvtune_", "process_", "python_")


def counters_of(body: bytes, url: str) -> Counters | Missing:
    """The counters in an agent's `/metrics` answer."""
    try:
        samples = _samples(body.decode("utf-8"))
    except (ValueError, KeyError, IndexError) as error:
        message = f"GET {url}: not Prometheus text ({error})"
        return Missing(reason=MissingReason.NO_DATA, message=message[:300])
    values: dict[Metric, float] = {}
    for metric in (*_REQUIRED, *_OPTIONAL):
        value = _single(metric, samples.get(_series(metric), ()), url)
        if isinstance(value, Missing):
            return value
        if value is not None:
            values[metric] = value
    ttft = _histogram(samples, url)
    return ttft if isinstance(ttft, Missing) else _counters(values, ttft, url)


def _samples(text: str) -> Mapping[str, list[Sample]]:
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    lines = "\n".join(line for line in text.splitlines() if _is_needed(line)) + "\n"
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            if sample.name in _WANTED:
                found[sample.name].append(sample)
    return found


def _is_needed(line: str) -> bool:
    """Whether a line holds a wanted series, or something foreign that the parser should refuse or skip."""
    return line.startswith(_WANTED_STARTS) or not line.startswith(_KNOWN_STARTS)


def _single(metric: Metric, samples: Iterable[Sample], url: str) -> float | Missing | None:
    name, found = _series(metric), list(samples)
    if not found:
        if metric not in _REQUIRED:
            return None
        return Missing(reason=MissingReason.NO_DATA, message=f"GET {url}: no {name}")
    if len(found) > 1:
        message = f"GET {url}: {len(found)} series of {name} where one is expected"
        return Missing(reason=MissingReason.AMBIGUOUS, message=message)
    return _finite(name, found[0].value, url)


def _finite(name: str, value: float, url: str) -> float | Missing:
    if math.isfinite(value):
        return value
    return Missing(reason=MissingReason.NAN, message=f"GET {url}: {name} is {value:g}")


def _histogram(samples: Mapping[str, list[Sample]], url: str) -> Histogram | Missing | None:
    name = f"{Metric.VLLM_TTFT}_bucket"
    buckets: dict[float, float] = {}
    for sample in samples.get(name, ()):
        value = _finite(name, sample.value, url)
        if isinstance(value, Missing):
            return value
        try:
            bound = float(sample.labels["le"])
        except (KeyError, ValueError):
            return _inconsistent(url, f"{name} without a numeric le")
        if bound in buckets:
            message = f"GET {url}: several series of {name} for le {bound:g}"
            return Missing(reason=MissingReason.AMBIGUOUS, message=message)
        buckets[bound] = value
    if not buckets:
        return None
    if math.inf not in buckets:
        return _inconsistent(url, f"{name} has no bucket for +Inf")
    sums = [sample.value for sample in samples.get(f"{Metric.VLLM_TTFT}_sum", ())]
    if len(sums) != 1 or not math.isfinite(sums[0]):
        return _inconsistent(url, f"{Metric.VLLM_TTFT}_sum has {len(sums)} usable series, one is expected")
    bounds = sorted(buckets)
    data = {"bounds": bounds[:-1], "counts": [buckets[bound] for bound in bounds], "sum": sums[0]}
    try:
        return parse(Histogram, data, root=Metric.VLLM_TTFT)
    except SpecError as error:
        return _inconsistent(url, str(error))


def _counters(values: Mapping[Metric, float], ttft: Histogram | None, url: str) -> Counters | Missing:
    device, external = values.get(Metric.VLLM_DEVICE_HITS), values.get(Metric.VLLM_EXTERNAL_HITS)
    hits = None if device is None else device + (external or 0.0)
    data = {
        "at": values[Metric.AGENT_COUNTERS_AT],
        "startedAt": values[Metric.AGENT_STARTED_AT],
        "requests": values[Metric.VLLM_REQUESTS],
        "promptTokens": values[Metric.VLLM_PROMPT_TOKENS],
        "hitTokens": hits,
        "evictionPasses": values.get(Metric.AGENT_EVICTION_PASSES),
        "bytesDown": values.get(Metric.AGENT_BYTES_DOWN),
        "errors": values.get(Metric.AGENT_ERRORS),
        "newSessionRoots": values.get(Metric.AGENT_NEW_ROOTS),
        "ttft": ttft,
    }
    try:
        return parse(Counters, data)
    except SpecError as error:
        return _inconsistent(url, str(error))


def _inconsistent(url: str, what: str) -> Missing:
    return Missing(reason=MissingReason.INCONSISTENT, message=f"GET {url}: {what}")
