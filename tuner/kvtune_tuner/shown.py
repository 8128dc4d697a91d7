"""Put the SLIs of a status into the few characters of a column of `kubectl get`. Pure.

Made from the SLIs as status holds them, so a column moves exactly when they do.
"""

from collections.abc import Sequence

from kvtune_api.policy import PolicySpec
from kvtune_api.status import Shown, Sli
from kvtune_tuner.scoring import HIT_RATE, TTFT

RANGE = 0.005
"""Bounds at least half a point apart are shown as a range."""


def shown(spec: PolicySpec, slis: Sequence[Sli]) -> Shown:
    """The columns of a policy: share within the TTFT limit and hit rate, each against its target."""
    by_name = {sli.name: sli for sli in slis}
    ttft, hit_rate, target = by_name.get(TTFT), by_name.get(HIT_RATE), spec.targets.ttft
    return Shown(
        ttft="" if ttft is None or target is None else _column(ttft, f" <{target.limit}"),
        hit_rate="" if hit_rate is None else _column(hit_rate, ""),
    )


def _column(sli: Sli, limit: str) -> str:
    if sli.value is None:
        return f"n/a: {sli.reason or 'NoData'}"[:64]
    asked = "" if sli.target is None else f" ({100 * sli.target:g}%)"
    return f"{_value(sli)}{limit}{asked}"[:64]


def _value(sli: Sli) -> str:
    assert sli.value is not None, "checked by the caller"
    if sli.low is not None and sli.high is not None and sli.high - sli.low >= RANGE:
        return f"{100 * sli.low:.1f}-{100 * sli.high:.1f}%"
    return f"{100 * sli.value:.1f}%"
