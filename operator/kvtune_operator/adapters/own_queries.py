"""Answers to queries of a user's own, put in the place of a preset's counters. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.wire import Counters, Histogram
from kvtune_operator.adapters.presets import FIELDS
from kvtune_operator.adapters.prometheus_http import Series
from kvtune_operator.adapters.prometheus_samples import histogram, number, one_number
from kvtune_tuner.sli import Missing, MissingReason

BUCKETS = "ttft_buckets"

OwnValues = dict[str, dict[str, float | Histogram | Missing | None]]
"""By agent (or pod) and field of `Counters`."""


def own_values(name: str, series: Sequence[Series], pod_label: str, pods: Iterable[str]) -> OwnValues:
    """What one query says of every pod: `name` is the query's field."""
    if name != BUCKETS:
        return {pod: {name: value} for pod, value in one_number(series, pod_label, pods, name).items()}
    return {pod: {"ttft": _buckets(pod, series, pod_label)} for pod in pods}


def _buckets(pod: str, series: Sequence[Series], pod_label: str) -> Histogram | Missing | None:
    counts: dict[float, float] = {}
    for item in series:
        labels, value = item.get("metric"), item.get("value")
        if not isinstance(labels, dict) or labels.get(pod_label) != pod or not isinstance(value, list):
            continue
        bound, count = number(labels.get("le")), number(value[-1])
        if bound in counts:
            text = f"{pod}: query {BUCKETS} gives several results for le {bound:g}, one is needed"
            return Missing(reason=MissingReason.AMBIGUOUS, message=text)
        if math.isnan(bound) or not math.isfinite(count):
            text = f"{pod}: query {BUCKETS} gives {count} for le {labels.get('le')}"
            return Missing(reason=MissingReason.NAN, message=text)
        counts[bound] = count
    try:
        return histogram(counts, 0.0)  # nobody asks for the sum
    except SpecError as error:
        text = f"{pod}: query {BUCKETS}: {error.problems[0]}"
        return Missing(reason=MissingReason.INCONSISTENT, message=text)


def with_own(answers: Mapping[str, Counters | Missing], own: OwnValues) -> dict[str, Counters | Missing]:
    """The answers with the values of the user's own queries in them."""
    return {agent: _put(agent, counters, own.get(agent)) for agent, counters in answers.items()}


def _put(
    agent: str, counters: Counters | Missing, own: Mapping[str, float | Histogram | Missing | None] | None
) -> Counters | Missing:
    if isinstance(counters, Missing) or not own:
        return counters
    for value in own.values():
        if isinstance(value, Missing):
            return value
    try:
        # a dict of fields: the values' types are checked by the type that is made
        merged = {name: getattr(counters, name) for name in ("at", "started_at", *FIELDS)} | dict(own)
        return parse(Counters, merged)
    except SpecError as error:
        text = f"{agent}: own queries: {error.problems[0]}"
        return Missing(reason=MissingReason.INCONSISTENT, message=text)
