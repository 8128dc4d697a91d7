"""An explanation as tables for a person."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from kvtune_cache.reuse_aware.axes import AXIS_NAMES, LEVEL_NAMES
from kvtune_cli.output import say
from kvtune_cli.tables import print_table
from kvtune_lab.explain.explain import OURS, Distance, Explained, distances, most_to_gain
from kvtune_lab.explain.learned import Learned

AGES_S = (1.0, 10.0, 60.0, 300.0, 1_800.0)


def print_explained(explained: Explained) -> None:
    """Print rates, distances and hints."""
    for table in (_rates, _distances, _hints, _with_hints):
        print_table(table(explained))
    say(_summary(explained))


def print_learned(learned: Learned) -> None:
    """Print what the policy has learned, one line for each level of each axis."""
    print_table(_hazards(learned), keys=2)


def _rates(explained: Explained) -> Table:
    table = _table("Hit rate, % of prompt tokens, last half, by blocks", explained)
    for curve in explained.curves.policies:
        if curve.policy.value != "OPT":
            table.add_row(curve.policy.value, *(f"{100 * rate:.1f}" for rate in curve.rates))
    for name, rates in explained.bounds.items():
        table.add_row(f"bound, {name}", *(f"{100 * rate:.1f}" for rate in rates))
    opt = explained.of("OPT")
    if opt is not None:
        table.add_row("OPT", *(f"{100 * rate:.1f}" for rate in opt.rates))
    return table


def _distances(explained: Explained) -> Table:
    table = _table("Points over LRU", explained)
    found = distances(explained)
    if all(one.ours is not None for one in found):
        table.add_row(OURS, *(f"{one.ours:+.1f}" for one in found))
        table.add_row("  of what is knowable", *(_share(one) for one in found))
    table.add_row("knowable by its classes", *(f"{one.knowable:+.1f}" for one in found))
    table.add_row("possible (OPT)", *(f"{one.possible:+.1f}" for one in found))
    return table


def _share(one: Distance) -> str:
    """Where there is half a point to be had."""
    if one.ours is None or one.knowable < 0.5:
        return "-"
    return f"{one.ours / one.knowable:.0%}"


def _hints(explained: Explained) -> Table:
    table = _table("Points that a client's hint (touched again or not) adds to the bound", explained)
    base = explained.bounds["all classes"]
    for accuracy, rates in explained.hints.items():
        gains = (f"{100 * (rate - known):+.1f}" for rate, known in zip(rates, base, strict=True))
        table.add_row(f"right {accuracy:.0%} of the time", *gains)
    return table


def _with_hints(explained: Explained) -> Table:
    table = _table(f"Points that hints on sessions (back when, or over) bring {OURS}, simulated", explained)
    ours = explained.of(OURS)
    assert ours is not None
    for accuracy, rates in explained.with_hints.items():
        gains = (
            "-" if rate is None else f"{100 * (rate - without):+.1f}"
            for rate, without in zip(rates, ours.rates, strict=True)
        )
        table.add_row(f"right {accuracy:.0%} of the time", *gains)
    return table


def _summary(explained: Explained) -> str:
    """The capacity with most to gain, in one sentence."""
    most = most_to_gain(explained)
    ours = "" if most.ours is None else f"; {OURS} has {most.ours:+.1f} of that"
    return (
        f"Most is to be gained at {most.capacity_blocks:,} blocks: LRU hits {100 * most.lru:.1f} %, what can "
        f"be known of a touch is worth {most.knowable:+.1f} points{ours}, and OPT, which knows the future, "
        f"has {most.possible:+.1f}."
    )


def _hazards(learned: Learned) -> Table:
    table = Table(
        title="What the policy has learned: touches an hour of a waiting block, by its age",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for head in ("axis", "level"):
        table.add_column(head)
    for age in AGES_S:
        table.add_column(f"{age:g} s", justify="right")
    for axis, name in enumerate(AXIS_NAMES):
        levels = learned.by_level(axis)
        for level, rates in levels.items() if len(levels) > 1 else ():
            cells = [rates[_bin(learned, age)] for age in AGES_S]
            shown = ["-" if cell is None else f"{3600 * cell:,.3g}" for cell in cells]
            table.add_row(name, LEVEL_NAMES[axis][level], *shown)
    return table


def _bin(learned: Learned, age_s: float) -> int:
    return max(b for b in range(len(learned.edges_s) - 1) if learned.edges_s[b] <= age_s)


def _table(title: str, explained: Explained) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for capacity in explained.curves.capacities:
        table.add_column(f"{capacity:,}", justify="right")
    return table
