"""Draw a plan: hit rates against capacity, what money buys, and from which tier the hits come.

Called by `kvtune capacity --plots DIR`. Figures need no display.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from kvtune_lab.capacity.advice import money
from kvtune_lab.capacity.efficient import efficient
from kvtune_lab.capacity.plan import Plan
from kvtune_lab.capacity.splits import Split
from kvtune_lab.looks import limits_of, look_of
from kvtune_lab.setups import Policy
from kvtune_lab.sizes import in_bytes

COLORS: Final = {"device": "#4c78a8", "host": "#f58518", "disk": "#9d9d9d", "miss": "#eeeeee"}
MOST_BARS: Final = 14


def figures(plan: Plan) -> Iterator[tuple[str, Figure]]:
    """All plots, with the names of their files."""
    yield "curves", _curves(plan)
    yield "cost", _cost(plan)
    yield "tiers", _tiers(plan)


def _curves(plan: Plan) -> Figure:
    figure, ax = _figure("Hit rate against capacity")
    exact = np.unique(np.geomspace(1, plan.curves.lru.distinct_blocks, 600).astype(np.int64))
    first = plan.curves.capacities[0]
    exact = exact[exact >= first]
    ax.plot(
        exact, 100 * plan.curves.lru.tokens_last_half[exact], color="black", linewidth=2.6, label="LRU, exact"
    )
    others = [curve for curve in plan.curves.policies if curve.policy is not Policy.LRU]
    for curve in others:
        ax.errorbar(
            plan.curves.capacities,
            [100 * rate for rate in curve.rates],
            yerr=[100 * error for error in curve.errors] if any(curve.errors) else None,
            label=curve.policy.value,
            capsize=2,
            **look_of(curve.policy),
        )
    ax.axhline(100 * plan.ceiling, color="black", linewidth=0.8, linestyle=":", label="all that comes back")
    ax.axvline(plan.layout.device_blocks, color=COLORS["device"], linewidth=1, label="the device")
    if plan.knee_blocks:
        ax.axvline(plan.knee_blocks, color="#bcbd22", linewidth=1.5, linestyle="-.", label="knee of LRU")
    if plan.no_policy_from is not None:
        label = "no policy matters"
        ax.axvspan(plan.no_policy_from, _beyond(plan), color="#54a24b", alpha=0.2, label=label)
    _capacity_axis(ax, plan)
    ax.set_xlim(first / 1.2, _beyond(plan))
    ax.set_ylabel("hit rate, % of prompt tokens, last half")
    shown = [*plan.curves.lru.tokens_last_half[exact], *(r for c in plan.curves.policies for r in c.rates)]
    ax.set_ylim(limits_of(100 * float(rate) for rate in shown))
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _beyond(plan: Plan) -> float:
    """A capacity to the right of all that were measured."""
    return 1.2 * max(plan.curves.capacities[-1], plan.layout.device_blocks)


def _cost(plan: Plan) -> Figure:
    figure, ax = _figure("What money buys below the device")
    for policy in dict.fromkeys(split.policy for split in plan.splits):
        front = efficient(split for split in plan.splits if split.policy is policy)
        ax.step(
            [split.monthly_cost for split in front],
            [100 * split.prefill_saved for split in front],
            where="post",
            label=policy.value,
            **look_of(policy) | {"marker": ""},
        )
    ax.plot(
        plan.best.monthly_cost,
        100 * plan.best.prefill_saved,
        "*",
        color="#ffd92f",
        markeredgecolor="black",
        markersize=15,
        label="recommended",
    )
    ax.set_xscale("symlog", linthresh=max(1e-6, _least_cost(plan)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: money(x)))
    ax.set_xlabel("cost a month, in the currency of the prices")
    ax.set_ylabel("prefill time saved, % of that without any cache")
    ax.set_ylim(0, 1.08 * ax.get_ylim()[1])
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _least_cost(plan: Plan) -> float:
    return min((split.monthly_cost for split in plan.splits if split.monthly_cost > 0), default=1.0)


def _tiers(plan: Plan) -> Figure:
    shown = _thinned(efficient(split for split in plan.splits if split.policy is plan.best.policy), plan.best)
    figure, ax = _figure(f"Where hits come from, {plan.best.policy} below the device")
    places, below = np.arange(len(shown)), np.zeros(len(shown))
    for tier in ("device", "host", "disk"):
        hits = np.array([100 * getattr(split, f"{tier}_hit_rate") for split in shown])
        ax.barh(places, hits, left=below, color=COLORS[tier], label=tier)
        below += hits
    ax.axvline(100 * plan.ceiling, color="black", linewidth=0.8, linestyle=":", label="all that comes back")
    ax.set_xlim(0, 105 * plan.ceiling if plan.ceiling > 0 else 1)
    ax.set_yticks(places, [_named(plan, split) for split in shown], fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("hit rate, % of prompt tokens, last half")
    ax.set_ylabel("host + disk, cost a month (bold: recommended)")
    for label, split in zip(ax.get_yticklabels(), shown, strict=True):
        label.set_fontweight("bold" if split == plan.best else "normal")
    ax.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _thinned(front: Sequence[Split], best: Split) -> list[Split]:
    """The best one and others at even steps, cheapest first."""
    step = max(1, -(-len(front) // MOST_BARS))
    kept = [split for i, split in enumerate(front) if i % step == 0 or i == len(front) - 1 or split == best]
    if best not in kept:
        kept.append(best)
    return sorted(kept, key=lambda split: split.monthly_cost)


def _named(plan: Plan, split: Split) -> str:
    if not (split.host_blocks or split.disk_blocks):
        return "the device alone"
    host, disk = (
        in_bytes(blocks * plan.layout.bytes_per_block) if blocks else "-"
        for blocks in (split.host_blocks, split.disk_blocks)
    )
    return f"{host} + {disk}, {money(split.monthly_cost)}"


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    ax = figure.subplots()
    ax.set_title(title)
    return figure, ax


def _capacity_axis(ax: Axes, plan: Plan) -> None:
    """Logarithmic, marked at powers of two in bytes."""
    ax.set_xscale("log", base=2)
    block = plan.layout.bytes_per_block
    low, high = (
        np.log2(blocks * block) for blocks in (plan.curves.capacities[0], plan.curves.capacities[-1])
    )
    step = max(1, int(np.ceil((high - low) / 8)))
    marks = [2.0**power / block for power in range(int(np.ceil(low)), int(high) + 1, step)]
    ax.set_xticks(marks)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda blocks, _: in_bytes(round(blocks * block))))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("capacity")
