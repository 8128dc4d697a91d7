"""How policies look on every plot of the laboratory, and how plots are written.

Called by the plots of capacity, explain, sweep and stats. Figures need no display.
"""

from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib.figure import Figure

from kvtune_lab.setups import Policy
from kvtune_lab.whole_files import replacing

_COLORS: Mapping[Policy, str] = MappingProxyType(
    {
        Policy.LRU: "black",
        Policy.FIFO: "#ff7f0e",
        Policy.S3FIFO: "#2ca02c",
        Policy.SIEVE: "#8c564b",
        Policy.ARC: "#9467bd",
        Policy.TOKEN_LRU: "#17becf",
        Policy.WORKLOAD_AWARE: "#e377c2",
        Policy.REUSE_AWARE: "#d62728",
        Policy.OPT: "#777777",
    }
)
_MARKERS = "osD^vP*Xh"
_WIDE = 2.6
_LINES: Mapping[Policy, dict[str, Any]] = MappingProxyType(
    {
        Policy.LRU: {"linewidth": _WIDE},
        Policy.TOKEN_LRU: {"linestyle": ":"},
        Policy.WORKLOAD_AWARE: {"linestyle": "-."},
        Policy.REUSE_AWARE: {"linewidth": 1.8},
    }
)
"""Policies often come to the same: LRU is wide, so that it is seen below the others, and some have gaps."""


def look_of(policy: Policy) -> dict[str, Any]:
    """The line of a policy, the same on every plot; OPT, which no cache can run, is dashed."""
    if policy is Policy.OPT:
        return {"color": _COLORS[policy], "linestyle": "--", "linewidth": 1.2}
    marker = _MARKERS[list(Policy).index(policy) % len(_MARKERS)]
    look = {"color": _COLORS[policy], "marker": marker, "markersize": 5.5, "markerfacecolor": "none"}
    return {**look, "linewidth": 1.2, **_LINES.get(policy, {})}


def limits_of(rates: Iterable[float]) -> tuple[float, float]:
    """Limits of an axis of rates: from 0 on, unless nothing lies in the lower half; NaN is a gap."""
    known = [rate for rate in rates if not isnan(rate)] or [0.0]
    least, most = min(known), max(known)
    bottom = 0.0 if least <= most / 2 or least == most else least - 0.3 * (most - least)
    return bottom, most + 0.05 * (most - bottom) if most > 0 else 1.0


def write_figures(
    figures: Iterable[tuple[str, Figure]], folder: Path, *, command: str, suffix: str
) -> list[Path]:
    """Write named plots as png or svg into a folder, made where it is not there; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures:
        path = folder / f"{command}-{name}.{suffix}"
        with replacing(path) as file:
            figure.savefig(file, dpi=144, format=suffix)
        written.append(path)
    return written
