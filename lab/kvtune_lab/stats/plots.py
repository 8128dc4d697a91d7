"""Draw the statistics of a trace: reuse intervals with their laws, working sets, users, arrivals.

Called by `kvtune trace stats --plots DIR`. Figures are made without a display.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from kvtune_lab.readers.loaded import Arrivals, ClientRates, Reals
from kvtune_lab.stats.arrivals import BIN_SECONDS, counts_per_bin
from kvtune_lab.stats.intervals import cumulative, describe
from kvtune_lab.stats.report import Report, TraceStats
from kvtune_lab.stats.skew import reuse_by_user
from kvtune_lab.stats.working_set import blocks_per_window

_POINTS = 400
_MOST_BINS = 250
_JOINED = (1, 2, 3, 5, 6, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440)
_MINUTES_UP_TO = 3 * 3600
_PANELS_A_ROW = 3
_MOST_PANELS = 9
_MEASURED: dict[str, Any] = {"color": "#1f77b4", "linewidth": 2.0, "label": "measured"}
_LAW: dict[str, Any] = {"color": "#d62728", "linewidth": 1.4, "linestyle": "--"}


def trace_figures(stats: TraceStats, report: Report) -> Iterator[tuple[str, Figure]]:
    """All plots of a trace with blocks, with the names of their files."""
    yield "classes", _classes(report)
    intervals = _intervals(stats)
    if intervals is not None:
        yield "reuse-intervals", intervals
    yield "working-set", _working_set(stats)
    reused = reuse_by_user(stats.talks.sessions, stats.hit_tokens)
    if reused.sum() > 0:
        users = "inferred sessions" if stats.talks.inferred else "sessions"
        yield "users", _skew(reused, users, "reused tokens")
    yield "arrivals", _arrivals(np.asarray(stats.loaded.requests.times))


def arrival_figures(arrivals: Arrivals | ClientRates) -> Iterator[tuple[str, Figure]]:
    """All plots of a trace without blocks."""
    if isinstance(arrivals, Arrivals):
        yield "arrivals", _arrivals(arrivals.times)
        return
    if not arrivals.rates.any():
        return
    step = arrivals.step_seconds
    counts = np.bincount((arrivals.times // step).astype(np.int64), arrivals.rates * step)
    yield "arrivals", _counts(counts.astype(np.float64), step, len(counts) * step)
    yield "users", _skew(reuse_by_user(arrivals.clients, arrivals.rates), "clients", "requests")


def _intervals(stats: TraceStats) -> Figure | None:
    """One panel for each class with reuse: the share of reuses that come within a time, and the best law."""
    classes = [(k, name) for k, name in enumerate(stats.classes.names) if np.any(stats.seconds_of(k) > 0)]
    if not classes:
        return None
    classes = sorted(classes, key=lambda numbered: -len(stats.seconds_of(numbered[0])))[:_MOST_PANELS]
    across = min(len(classes), _PANELS_A_ROW)
    down = ceil(len(classes) / across)
    figure = Figure(figsize=(max(6.5, 3.9 * across), 3.1 * down + 0.6), layout="constrained")
    figure.suptitle("Time until a block is wanted again, by class")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for spare in axes[len(classes) :]:
        spare.remove()
    for ax, (k, name) in zip(axes, sorted(classes), strict=False):
        _interval_panel(ax, np.sort(stats.seconds_of(k)), name)
    return figure


def _interval_panel(ax: Axes, ordered: Reals, name: str) -> None:
    ordered = ordered[ordered > 0]
    chosen = np.linspace(0, len(ordered) - 1, min(_POINTS, len(ordered))).astype(np.int64)
    ax.plot(ordered[chosen], (chosen + 1) / len(ordered), **_MEASURED)
    fits = describe(ordered).fits
    if fits:
        grid = np.geomspace(ordered[0], ordered[-1], _POINTS)
        label = f"{fits[0].law}, KS {fits[0].ks_distance:.3f}"
        ax.plot(grid, cumulative(fits[0], grid), label=label, **_LAW)
    ax.set_xscale("log")
    ax.set_xlabel("seconds")
    _percent(ax, "% of reuses within")
    ax.set_ylim(0, 1.02)
    ax.set_title(name, fontsize="medium")
    ax.legend(fontsize="small", loc="best")


def _classes(report: Report) -> Figure:
    """Side by side what comes back, what an infinite cache has, and what is kept for nothing."""
    classes = (*report.classes, report.whole)
    figure = Figure(figsize=(8.5, 0.62 * len(classes) + 1.6), layout="constrained")
    figure.suptitle("Reuse and waste by class")
    ax = figure.subplots()
    places, bars = np.arange(len(classes)), ("touched again", "prefix match", "wasted residency")
    for number, (label, color) in enumerate(zip(bars, ("#1f77b4", "#2ca02c", "#d62728"), strict=True)):
        rates = [(each.ideal_reuse, each.prefix_match_rate, each.wasted_share)[number] for each in classes]
        heights = [np.nan if rate is None else rate for rate in rates]
        ax.barh(places + 0.27 * (number - 1), heights, 0.25, label=label, color=color)
    names = [f"{each.name}, {each.references / report.whole.references:.0%}" for each in classes]
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_ylabel("class, share of all block touches")
    ax.set_xlabel("% of touches, of prompt tokens, of block-seconds")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda rate, _position: f"{100 * rate:g}"))
    ax.set_xlim(0, 1)
    ax.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _working_set(stats: TraceStats) -> Figure:
    options, loaded = stats.options, stats.loaded
    counts = blocks_per_window(loaded, options.window_seconds)
    figure, ax = _single(f"Distinct blocks touched in each {_span(options.window_seconds)}")
    _steps(ax, counts, options.window_seconds, float(loaded.requests.times[-1]))
    ax.set_ylabel("blocks")
    if options.bytes_per_token is not None:
        gib = options.bytes_per_token * loaded.block_tokens / 2**30

        def in_gib(blocks: Any) -> Any:
            return blocks * gib

        def in_blocks(size: Any) -> Any:
            return size / gib

        beside = ax.secondary_yaxis("right", functions=(in_gib, in_blocks))
        beside.set_ylabel("GiB")
        beside.yaxis.set_major_formatter(FuncFormatter(lambda size, _position: f"{size:,.4g}"))
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _skew(volumes: Reals, users: str, volume: str) -> Figure:
    """The share of all that the largest users have."""
    figure, ax = _single(f"Share of {volume} by {users}, the largest first")
    share = np.concatenate(([0.0], np.cumsum(volumes) / volumes.sum()))
    ax.plot(np.arange(len(share)) / len(volumes), share, **_MEASURED)
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=1, label="all the same")
    ax.axhline(0.9, color="#d62728", linewidth=1, linestyle=":", label="90 %")
    ax.set_xlabel(f"% of {len(volumes):,} {users}")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda rate, _position: f"{100 * rate:g}"))
    ax.set_xlim(0, 1)
    _percent(ax, f"% of {volume}")
    ax.set_ylim(0, 1.02)
    ax.legend(loc="lower right")
    return figure


def _arrivals(times: Reals) -> Figure:
    return _counts(counts_per_bin(times), BIN_SECONDS, float(times[-1]))


def _counts(counts: Reals, bin_seconds: float, end_seconds: float) -> Figure:
    figure, ax = _single(f"Requests in each {_span(bin_seconds)}")
    _steps(ax, counts, bin_seconds, end_seconds)
    mean = float(counts.mean())
    times = counts.max() / mean
    ax.axhline(mean, color="#2ca02c", linewidth=1.2, linestyle="--", label=f"mean {_number(mean)}")
    ax.axhline(
        float(counts.max()),
        color="#d62728",
        linewidth=0.8,
        linestyle=":",
        label=f"peak {_number(counts.max())} ({times:.1f} x mean)",
    )
    ax.set_ylabel("requests")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _steps(ax: Axes, counts: Reals, bin_seconds: float, end_seconds: float) -> None:
    """Bins from second 0; where they are too many to be told apart, the mean and the most of some of them."""
    joined = next(n for n in _JOINED if len(counts) <= n * _MOST_BINS or n == _JOINED[-1])
    firsts = np.arange(0, len(counts), joined)
    end_seconds = max(end_seconds, firsts[-1] * bin_seconds + 1e-9)
    unit, seconds = ("minutes", 60) if end_seconds < _MINUTES_UP_TO else ("hours", 3600)
    edges = np.append(firsts * bin_seconds, min(end_seconds, len(counts) * bin_seconds)) / seconds
    means = np.add.reduceat(counts, firsts) / np.diff(np.append(firsts, len(counts)))
    if joined > 1:
        most = np.maximum.reduceat(counts, firsts)
        ax.stairs(most, edges, fill=True, color="#aec7e8", label=f"most of {joined:g} in a row")
    label = "each" if joined == 1 else f"mean of {joined:g} in a row"
    ax.stairs(means, edges, fill=True, color="#1f77b4", label=label)
    ax.set_xlabel(f"{unit} from the first request")
    ax.set_xlim(0, edges[-1])
    ax.set_ylim(0, 1.05 * float(counts.max()))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _position: _number(count)))


def _number(count: float) -> str:
    return f"{count / 1e6:,.4g} M" if count >= 1e6 else f"{count:,.4g}" if count < 1_000 else f"{count:,.0f}"


def _single(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    figure.suptitle(title)
    ax = figure.subplots()
    ax.grid(visible=True, alpha=0.3)
    return figure, ax


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"


def _percent(ax: Axes, label: str) -> None:
    ax.set_ylabel(label)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda rate, _position: f"{100 * rate:g}"))
    ax.grid(visible=True, alpha=0.3)
