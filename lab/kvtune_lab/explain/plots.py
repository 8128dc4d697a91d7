"""Draw an explanation: rates beside what is knowable, what hints add, and what the policy has learned.

Called by `kvtune explain --plots DIR`. Figures need no display.
"""

from collections.abc import Iterator
from math import isfinite, nan
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from kvtune_cache.reuse_aware.axes import AXIS_NAMES, LEVEL_NAMES
from kvtune_lab.explain.explain import OURS, Explained
from kvtune_lab.explain.learned import Learned
from kvtune_lab.looks import limits_of, look_of
from kvtune_lab.setups import Policy

LEAST_EVENTS: Final = 1.0
"""Bins with fewer events of all classes together are not drawn: what is fitted there is the prior."""


HOUR_SECONDS: Final = 3_600.0

LEAST_POINTS: Final = 1.0
"""An axis of gains shows at least so many: what is less does not matter."""


def figures(explained: Explained | None, learned: Learned | None) -> Iterator[tuple[str, Figure]]:
    """All plots that there is something to draw for, with the names of their files."""
    if explained is not None:
        yield "knowable", _knowable(explained)
        yield "hints", _hints(explained)
    if learned is not None and learned.classes:
        yield "hazard", _hazard(learned)


def _knowable(explained: Explained) -> Figure:
    figure, ax = _figure("How far is knowable")
    curves, capacities = explained.curves, explained.curves.capacities
    exact = np.unique(np.geomspace(capacities[0], capacities[-1], 400).astype(np.int64))
    exact = exact[exact <= curves.lru.distinct_blocks]
    ax.plot(exact, 100 * curves.lru.tokens_last_half[exact], color="black", linewidth=2.6, label="LRU")
    for curve in curves.policies:
        if curve.policy is not Policy.LRU:
            ax.plot(capacities, _percent(curve.rates), label=curve.policy.value, **look_of(curve.policy))
    looks = {"all classes": ("-", "bound of its classes"), "no class": (":", "bound, no class")}
    for name, (line, label) in looks.items():
        ax.plot(capacities, _percent(explained.bounds[name]), color="#1f77b4", linestyle=line, label=label)
    ax.axhline(
        100 * float(curves.lru.tokens_last_half[-1]),
        color="black",
        linewidth=0.8,
        linestyle=":",
        label="all that comes back",
    )
    _capacity_axis(ax, capacities)
    shown = [*curves.lru.tokens_last_half[exact], curves.lru.tokens_last_half[-1]]
    shown += [rate for curve in curves.policies for rate in curve.rates]
    shown += [rate for name in looks for rate in explained.bounds[name]]
    ax.set_ylim(limits_of(100 * float(rate) for rate in shown))
    ax.set_ylabel("hit rate, % of prompt tokens, last half")
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _hints(explained: Explained) -> Figure:
    """Solid what ours gains over itself without hints, dashed what the bound does."""
    figure, ax = _figure("What a client's hints add")
    accuracies = [100 * accuracy for accuracy in explained.hints]
    ours, bounds = explained.of(OURS), explained.bounds["all classes"]
    assert ours is not None
    for i, capacity in enumerate(explained.curves.capacities):
        simulated = [(rates[i], ours.rates[i]) for rates in explained.with_hints.values()]
        gains = [nan if rate is None else 100 * (rate - without) for rate, without in simulated]
        color, blocks = f"C{i % 10}", f"{capacity:,}"
        if any(rate is not None for rate, _ in simulated):
            ax.plot(accuracies, gains, color=color, marker="o", markersize=4, label=f"{blocks}, {OURS}")
        bound = [100 * (rates[i] - bounds[i]) for rates in explained.hints.values()]
        ax.plot([50, *accuracies], [0, *bound], color=color, linestyle="--", label=f"{blocks}, bound")
    ax.axhline(0, color="black", linewidth=0.8)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -LEAST_POINTS / 4), max(high, LEAST_POINTS))
    ax.set_xlabel("hints that are right, %")
    ax.set_ylabel("points of hit rate over the same without hints")
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small", title="blocks")
    return figure


def _hazard(learned: Learned) -> Figure:
    """One panel for each axis on which levels differ."""
    axes = [axis for axis in range(len(AXIS_NAMES)) if len({one.levels[axis] for one in learned.classes}) > 1]
    figure = Figure(figsize=(11.0, 3.4 * -(-len(axes or [0]) // 2) + 0.6), layout="constrained")
    figure.suptitle("What the policy has learned: touches an hour of a waiting block, by its age")
    panels = figure.subplots(-(-len(axes or [0]) // 2), 2, squeeze=False).ravel()
    for ax, axis in zip(panels, axes or [0], strict=False):
        _panel(ax, learned, axis)
    for spare in panels[len(axes or [0]) :]:
        spare.remove()
    return figure


def _panel(ax: Axes, learned: Learned, axis: int) -> None:
    events = [sum(one.events[b] for one in learned.classes) for b in range(len(learned.edges_s) - 1)]
    edges = [max(edge, learned.edges_s[1] / 2) for edge in learned.edges_s]
    for level, rates in learned.by_level(axis).items():
        heights = [
            HOUR_SECONDS * rate if rate is not None and events[b] >= LEAST_EVENTS and isfinite(rate) else nan
            for b, rate in enumerate(rates)
        ]
        if any(isfinite(height) for height in heights):
            ax.stairs(heights, edges, baseline=None, label=LEVEL_NAMES[axis][level], linewidth=1.2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(AXIS_NAMES[axis], fontsize="medium")
    ax.set_xlabel("age, s")
    ax.set_ylabel("touches an hour")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="x-small")


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    ax = figure.subplots()
    ax.set_title(title)
    return figure, ax


def _capacity_axis(ax: Axes, capacities: tuple[int, ...]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(capacities)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda blocks, _: f"{blocks:,.0f}"))
    ax.tick_params(axis="x", labelrotation=45 if len(capacities) > 6 else 0)
    ax.set_xlabel("capacity, blocks")
    ax.grid(alpha=0.3)


def _percent(rates: tuple[float, ...]) -> list[float]:
    return [100 * rate for rate in rates]
