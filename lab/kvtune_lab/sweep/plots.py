"""Draw a sweep: hit rates and evictions against capacity, and hit rates against each other choice.

Called by `kvtune sweep --plots DIR`. Figures are made without a display; whoever writes them closes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from kvtune_lab.looks import limits_of, look_of
from kvtune_lab.setups import Policy, Setup, ttl_text, variant_text
from kvtune_lab.simulation import Simulation
from kvtune_lab.sizes import in_bytes

_MOST_PANELS = 12
_PANELS_A_ROW = 3
_MOST_LEVEL_LABELS = 5
_NOTHING_CHOSEN = "no TTL, no ratio"


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice of a sweep that a plot may stand against."""

    name: str
    label: str
    value: Callable[[Setup], Any]


def figures(rows: Sequence[Simulation], *, bytes_per_block: int | None) -> Iterator[tuple[str, Figure]]:
    """Draw all plots that these rows have points for, with the names of their files."""
    if len({row.setup.capacity_blocks for row in rows}) > 1:
        yield "hit-rate", _hit_rates(rows, bytes_per_block)
        if any(row.evictions is not None for row in rows):
            yield "evictions", _evictions(rows, bytes_per_block)
    for choice in (
        _Choice("ttl", "TTL", lambda setup: setup.ttl_seconds),
        _Choice("eviction-ratio", "eviction ratio", lambda setup: setup.eviction_ratio),
        _Choice("store-threshold", "stored when asked for so often", lambda setup: setup.store_threshold),
    ):
        if len({choice.value(row.setup) for row in rows if row.setup.policy is not Policy.OPT}) > 1:
            yield choice.name, _against(rows, choice)


def _hit_rates(rows: Sequence[Simulation], bytes_per_block: int | None) -> Figure:
    panels = _by_variant(rows)
    figure, axes = _panels("Hit rate against capacity", len(panels))
    for ax, (title, members) in zip(axes, panels.items(), strict=True):
        _lines(ax, members, lambda row: row.token_hit_rate_last_half)
        _capacity_axis(ax, members, bytes_per_block)
        _percent_axis(ax, "hit rate, % of tokens, last half")
        ax.set_title(title, fontsize="medium")
    _same_height(axes)
    return _with_legend(figure, axes)


def _evictions(rows: Sequence[Simulation], bytes_per_block: int | None) -> Figure:
    """Two panels for each variant: what leaves, and which part of it is missed."""
    kept = [row for row in rows if row.evictions is not None]
    panels = _by_variant(kept)
    figure, axes = _panels("Evictions against capacity", 2 * len(panels), a_row=2)
    for number, (title, members) in enumerate(panels.items()):
        left, wanted = axes[2 * number : 2 * number + 2]
        _lines(left, members, _left_share)
        _percent_axis(left, "blocks evicted, % of block references")
        _lines(wanted, members, _wanted_share)
        _percent_axis(wanted, "asked for again, % of evicted blocks")
        for ax in (left, wanted):
            _capacity_axis(ax, members, bytes_per_block)
            ax.set_title(title, fontsize="medium")
    return _with_legend(figure, axes)


def _left_share(row: Simulation) -> float:
    return row.evictions.total / row.block_references if row.evictions else float("nan")


def _wanted_share(row: Simulation) -> float:
    """A gap in the line where nothing was evicted."""
    if row.evictions is None or row.evictions.total == 0:
        return float("nan")
    return row.evictions.wanted_again / row.evictions.total


def _against(rows: Sequence[Simulation], choice: _Choice) -> Figure:
    """Draw hit rates against one choice, its values side by side, a panel for each capacity."""
    panels: dict[int, list[Simulation]] = {}
    for row in rows:
        panels.setdefault(row.setup.capacity_blocks, []).append(row)
    capacities = sorted(panels)[:_MOST_PANELS]
    values = sorted(
        {choice.value(row.setup) for row in rows if row.setup.policy is not Policy.OPT},
        key=lambda value: float("inf") if value is None else value,
    )
    figure, axes = _panels(f"Hit rate against {choice.label}", len(capacities))
    for ax, capacity in zip(axes, capacities, strict=True):
        for policy, members in _by_policy(panels[capacity]).items():
            if policy is Policy.OPT:
                ax.axhline(members[0].token_hit_rate_last_half, label=policy.value, **look_of(policy))
                continue
            best = [_best(members, choice, value) for value in values]
            ax.plot(range(len(values)), best, label=policy.value, **look_of(policy))
        labels = [ttl_text(v) if choice.name == "ttl" else "none" if v is None else f"{v:g}" for v in values]
        ax.set_xticks(range(len(values)), labels)
        ax.set_xlabel(choice.label)
        _percent_axis(ax, "hit rate, % of tokens, last half")
        ax.set_title(f"{capacity:,} blocks", fontsize="medium")
    _same_height(axes)
    return _with_legend(figure, axes)


def _best(rows: Sequence[Simulation], choice: _Choice, value: object) -> float:
    """The best rate of a policy at one value, whatever else is chosen."""
    return max(
        (row.token_hit_rate_last_half for row in rows if choice.value(row.setup) == value),
        default=float("nan"),
    )


def _by_variant(rows: Sequence[Simulation]) -> dict[str, list[Simulation]]:
    """Rows that differ in policy and capacity alone; OPT stands on every panel."""
    found: dict[str, list[Simulation]] = {}
    optimal = [row for row in rows if row.setup.policy is Policy.OPT]
    for row in rows:
        if row.setup.policy is not Policy.OPT:
            found.setdefault(variant_text(row.setup), []).append(row)
    panels = dict(list(found.items())[:_MOST_PANELS]) or {"": []}
    plain = _NOTHING_CHOSEN if len(panels) > 1 else ""
    return {title or plain: [*members, *optimal] for title, members in panels.items()}


def _by_policy(rows: Sequence[Simulation]) -> dict[Policy, list[Simulation]]:
    found: dict[Policy, list[Simulation]] = {}
    for row in rows:
        found.setdefault(row.setup.policy, []).append(row)
    return found


def _lines(ax: Axes, rows: Sequence[Simulation], value: Callable[[Simulation], float]) -> None:
    """One line for each policy, against capacity."""
    for policy, members in _by_policy(rows).items():
        points = sorted((row.setup.capacity_blocks, value(row)) for row in members)
        ax.plot(*zip(*points, strict=True), label=policy.value, **look_of(policy))


def _panels(title: str, count: int, a_row: int = _PANELS_A_ROW) -> tuple[Figure, list[Axes]]:
    across = min(count, a_row)
    down = ceil(count / across)
    figure = Figure(figsize=(max(7.0, 4.4 * across + 1.6), 3.6 * down + 0.8), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.remove()
    return figure, list(grid[:count])


def _capacity_axis(ax: Axes, rows: Sequence[Simulation], bytes_per_block: int | None) -> None:
    """A logarithmic axis that is marked at the capacities themselves, in blocks, and in bytes where known."""
    capacities = sorted({row.setup.capacity_blocks for row in rows})
    ax.set_xscale("log")
    ax.set_xticks(capacities)
    ax.xaxis.set_minor_locator(NullLocator())

    def mark(blocks: float, _position: int | None) -> str:
        size = "" if bytes_per_block is None else f"\n{in_bytes(round(blocks * bytes_per_block))}"
        return f"{blocks:,.0f}{size}"

    ax.xaxis.set_major_formatter(FuncFormatter(mark))
    ax.tick_params(axis="x", labelsize="small")
    if len(capacities) > _MOST_LEVEL_LABELS:
        for label in ax.get_xticklabels():
            label.set(rotation=45, horizontalalignment="right", rotation_mode="anchor")
    ax.set_xlabel("capacity, blocks" if bytes_per_block is None else "capacity, blocks and bytes")


def _percent_axis(ax: Axes, label: str) -> None:
    ax.set_ylabel(label)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda rate, _position: f"{100 * rate:g}"))
    ax.grid(visible=True, alpha=0.3)


def _same_height(axes: Sequence[Axes]) -> None:
    """Let panels be compared by eye."""
    rates = [float(rate) for ax in axes for line in ax.get_lines() for rate in np.asarray(line.get_ydata())]
    for ax in axes:
        ax.set_ylim(limits_of(rates))


def _with_legend(figure: Figure, axes: Sequence[Axes]) -> Figure:
    """One legend for all panels, beside them."""
    shown = {
        label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside right upper")
    return figure
