"""From the series of an answer to counters: by pod, by scrape, never guessed. Pure.

All series of one scrape of one target share its timestamp, so a scrape is a consistent set of counters.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.wire import Counters, Histogram
from kvtune_operator.adapters.presets import Table, spelled
from kvtune_operator.adapters.prometheus_http import Series
from kvtune_tuner.sli import Missing, MissingReason

_SHOWN_VALUE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one scrape of one agent gave."""

    scraped_at: float
    """Timestamp of the scrape, unix seconds."""

    counters: Counters | Missing

    @property
    def at(self) -> float:
        """The moment that the counters are of."""
        return self.counters.at if isinstance(self.counters, Counters) else self.scraped_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How series are told apart."""

    pod_label: str
    replica_label: str | None = None
    summed: frozenset[str] = frozenset()


@dataclass(slots=True)
class Found:
    """All samples of one pod in one answer, oldest first, by HA replica; or why they mean nothing."""

    by_replica: dict[str, list[Sample]] = field(default_factory=dict)
    ambiguous: Missing | None = None


@dataclass(slots=True)
class _Run:
    """One series: its labels that matter, and its values by time."""

    rest: dict[str, str]
    part: tuple[tuple[str, str], ...]
    """Labels over which is summed."""

    values: dict[float, float]


_Kind = tuple[str, str, str]
"""Replica, metric, bound of a bucket."""


def found(series: Iterable[Series], shape: Shape, table: Table) -> dict[str, Found]:
    """The samples of every pod that the series speak of."""
    pods: dict[str, dict[_Kind, list[_Run]]] = defaultdict(lambda: defaultdict(list))
    apart = {"__name__", "le", shape.pod_label, shape.replica_label} | shape.summed
    for item in series:
        labels, values = item.get("metric"), item.get("values")
        if not isinstance(labels, dict) or not isinstance(values, list):
            continue
        if not all(isinstance(value, str) for value in labels.values()):
            continue
        pod = labels.get(shape.pod_label, "")
        replica = labels.get(shape.replica_label, "") if shape.replica_label else ""
        kind = (replica, spelled(labels.get("__name__", "")), labels.get("le", ""))
        rest = {name: value for name, value in labels.items() if name not in apart}
        part = tuple((name, labels.get(name, "")) for name in sorted(shape.summed))
        pods[pod][kind].append(_Run(rest, part, _by_time(values)))
    return {pod: _of_pod(pod, kinds, table) for pod, kinds in pods.items()}


def _by_time(values: Sequence[Any]) -> dict[float, float]:
    """Values by time; NaN for what is no number, and nothing of what is no pair."""
    try:
        return {float(at): float(value) for at, value in values}
    except (TypeError, ValueError):
        pairs = (pair for pair in values if isinstance(pair, list) and len(pair) == 2)
        return {number(at): number(value) for at, value in pairs}


def number(value: object) -> float:
    """A sample's value; NaN for what is no number."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def _of_pod(pod: str, kinds: Mapping[_Kind, list[_Run]], table: Table) -> Found:
    scrapes: dict[str, dict[float, dict[tuple[str, str], float]]] = defaultdict(lambda: defaultdict(dict))
    for (replica, name, bound), runs in kinds.items():
        if differing := _overlapping(runs):
            text = f"{pod}: several series of {name} that differ in {differing}"
            return Found(ambiguous=Missing(reason=MissingReason.AMBIGUOUS, message=text))
        key = (name, bound)
        for run in runs:
            for at, value in run.values.items():
                scrape = scrapes[replica][at]
                scrape[key] = scrape.get(key, 0.0) + value
    return Found(
        by_replica={
            replica: [
                Sample(scraped_at=at, counters=_counters(pod, at, scrape, table))
                for at, scrape in sorted(by_time.items())
            ]
            for replica, by_time in scrapes.items()
        }
    )


def _overlapping(runs: list[_Run]) -> str:
    """Labels in which series differ that exist at the same time and are not parts of one sum; else empty.

    One series after the other is a pod that came back with another address, and stands for one counter.
    """
    if len(runs) < 2:
        return ""
    groups: dict[tuple[tuple[str, str], ...], list[_Run]] = defaultdict(list)
    for run in runs:
        if run.values:
            groups[tuple(sorted(run.rest.items()))].append(run)
    if len(groups) < 2:
        return ""
    spans = sorted(
        (min(at for run in group for at in run.values), max(at for run in group for at in run.values), rest)
        for rest, group in groups.items()
    )
    for (_, last, one), (first, _, other) in pairwise(spans):
        if first <= last:
            return ", ".join(sorted({name for name, _ in set(one) ^ set(other)}))
    return ""


def _counters(
    pod: str, scraped_at: float, scrape: Mapping[tuple[str, str], float], table: Table
) -> Counters | Missing:
    if not all(map(math.isfinite, scrape.values())):
        name, value = next((name, value) for (name, _), value in scrape.items() if not math.isfinite(value))
        return Missing(reason=MissingReason.NAN, message=f"{pod}: {name} is {value} at {scraped_at:.3f}")
    at = scraped_at if table.at is None else scrape.get((table.at, ""))
    if at is None:
        return Missing(reason=MissingReason.NO_DATA, message=f"{pod}: no {table.at} at {scraped_at:.3f}")
    values: dict[str, float | None] = {}
    for item, series in table.counters.items():
        first = next((scrape[name, ""] for name in series.either if (name, "") in scrape), None)
        more = math.fsum(scrape.get((name, ""), 0.0) for name in series.plus)
        values[item] = None if first is None else first + more
    if all(value is None for value in values.values()) and not _bounds(scrape, table):
        return Missing(reason=MissingReason.NO_DATA, message=f"{pod}: no counter at {scraped_at:.3f}")
    try:
        return parse(
            Counters,
            {
                "at": at,
                "started_at": scrape.get((table.started_at, "")),
                "ttft": _histogram(scrape, table),
                **values,
            },
        )
    except SpecError as error:
        text = f"{pod}: counters at {scraped_at:.3f}: {error.problems[0]}"[:400]
        return Missing(reason=MissingReason.INCONSISTENT, message=text)


def _bounds(scrape: Mapping[tuple[str, str], float], table: Table) -> list[str]:
    wanted = f"{table.ttft}_bucket"
    return [bound for name, bound in scrape if name == wanted]


def _histogram(scrape: Mapping[tuple[str, str], float], table: Table) -> Histogram | None:
    name = f"{table.ttft}_bucket"
    counts = {number(bound): scrape[name, bound] for bound in _bounds(scrape, table)}
    return histogram(counts, scrape.get((f"{table.ttft}_sum", ""), 0.0))


def histogram(counts: Mapping[float, float], total: float) -> Histogram | None:
    """A histogram of cumulative counts by bound; None without any. Raises `SpecError` where it is none."""
    if not counts:
        return None
    bounds = sorted(counts)
    wanted = {
        "bounds": tuple(bound for bound in bounds if bound != math.inf),
        "counts": tuple(counts[bound] for bound in bounds),
        "sum": total,
    }
    return parse(Histogram, wanted, root="ttft")


def chosen(pods: Mapping[str, Found], held: str | None) -> str | None:
    """The HA replica to use for the whole pool: the one used before, else fewest gaps, then its name."""
    samples: dict[str, int] = defaultdict(int)
    for pod in pods.values():
        for replica, taken in pod.by_replica.items():
            samples[replica] += len(taken)
    if held in samples:
        return held
    return min(samples, key=lambda replica: (-samples[replica], replica), default=None)


def of_replica(pod: Found, replica: str | None) -> list[Sample]:
    """The samples of a replica, or of the first other one where that has none for this pod."""
    if replica in pod.by_replica:
        return pod.by_replica[replica]
    return pod.by_replica[min(pod.by_replica)] if pod.by_replica else []


def one_number(
    series: Iterable[Series], pod_label: str, pods: Iterable[str], field: str
) -> dict[str, float | Missing]:
    """The value of every pod in the answer to a query of a user's own."""
    wanted, values = set(pods), defaultdict[str, list[float]](list)
    unnamed = 0
    for item in series:
        labels, value = item.get("metric"), item.get("value")
        pod = labels.get(pod_label) if isinstance(labels, dict) else None
        if pod not in wanted or not isinstance(value, list) or len(value) != 2:
            unnamed += 1
            continue
        values[pod].append(number(value[1]))
    hint = f" ({unnamed} results without a known label {pod_label})" if unnamed else ""
    return {pod: _one(pod, values.get(pod, []), field, hint) for pod in wanted}


def _one(pod: str, values: list[float], field: str, hint: str) -> float | Missing:
    if not values:
        text = f"{pod}: query {field} gives nothing{hint}"
        return Missing(reason=MissingReason.NO_DATA, message=text)
    if len(values) > 1:
        text = f"{pod}: query {field} gives {len(values)} results, one is needed"
        return Missing(reason=MissingReason.AMBIGUOUS, message=text)
    if not math.isfinite(values[0]):
        return Missing(reason=MissingReason.NAN, message=f"{pod}: query {field} gives {values[0]}")
    return values[0]
