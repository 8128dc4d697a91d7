"""A plan of capacity as tables for a person."""

from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.table import Table

from kvtune_cli.output import say
from kvtune_cli.tables import print_table
from kvtune_lab.capacity.advice import money, sentence, simulation, size
from kvtune_lab.capacity.efficient import efficient
from kvtune_lab.capacity.plan import Plan, cost_per_point
from kvtune_lab.capacity.splits import Split

MOST_SPLITS = 12


def print_plan(plan: Plan, best_simulated: Split) -> None:
    """Print the curves, the splits worth a look, the published rules and the recommendation."""
    print_table(_curves(plan))
    print_table(_splits(plan), keys=3)
    print_table(_rules(plan))
    for line in _notes(plan):
        say(line)
    say(simulation(best_simulated))
    say("")
    say(sentence(plan))


def _curves(plan: Plan) -> Table:
    table = _table("Hit rate, % of prompt tokens, last half, by capacity")
    table.add_column("policy")
    for capacity in plan.curves.capacities:
        table.add_column(size(plan, capacity), justify="right")
    for curve in plan.curves.policies:
        cells = zip(curve.rates, curve.errors, strict=True)
        table.add_row(curve.policy.value, *(f"{100 * rate:.1f}{_error(error)}" for rate, error in cells))
    return table


def _error(error: float) -> str:
    return f" ±{100 * error:.1f}" if error > 0 else ""


def _splits(plan: Plan) -> Table:
    """The splits that no other beats, all policies together; the recommended one is among them."""
    table = _table("Tiers below the device, by cost (no other costs no more and saves as much)")
    columns: dict[str, Callable[[Split], str]] = {
        "host": lambda split: size(plan, split.host_blocks) if split.host_blocks else "-",
        "disk": lambda split: size(plan, split.disk_blocks) if split.disk_blocks else "-",
        "policy": lambda split: split.policy.value,
        "hits %": lambda split: f"{100 * split.hit_rate:.1f}",
        "device": lambda split: f"{100 * split.device_hit_rate:.1f}",
        "+ host": lambda split: f"{100 * split.host_hit_rate:.1f}",
        "+ disk": lambda split: f"{100 * split.disk_hit_rate:.1f}",
        "prefill saved %": lambda split: f"{100 * split.prefill_saved:.1f}",
        "a month": lambda split: money(split.monthly_cost),
        "a point": lambda split: _per_point(plan, split),
    }
    for name in columns:
        table.add_column(name, justify="left" if name == "policy" else "right")
    for split in _shown(plan):
        style = "bold" if split == plan.best else None
        table.add_row(*(cell(split) for cell in columns.values()), style=style)
    return table


def _shown(plan: Plan) -> list[Split]:
    front = efficient(plan.splits)
    step = max(1, -(-len(front) // MOST_SPLITS))
    chosen = [*front[::step], front[-1], plan.best]
    unique = {id(split): split for split in chosen if split != plan.best} | {id(plan.best): plan.best}
    return sorted(unique.values(), key=lambda split: (split.monthly_cost, split.prefill_saved))


def _per_point(plan: Plan, split: Split) -> str:
    cost = cost_per_point(plan, split)
    return "-" if cost is None else money(cost)


def _rules(plan: Plan) -> Table:
    table = _table("Published rules of thumb (claims about other traffic), and LRU on this trace")
    for head in ("claim", "capacity", "hits %", "% of the ceiling"):
        table.add_column(head, justify="left" if head == "claim" else "right")
    for rule in plan.rules:
        share = "-" if rule.share_of_ceiling is None else f"{100 * rule.share_of_ceiling:.1f}"
        capacity = size(plan, round(rule.multiple * plan.layout.device_blocks))
        table.add_row(rule.claim, capacity, f"{100 * rule.hit_rate:.1f}", share)
    return table


def _notes(plan: Plan) -> list[str]:
    curves = plan.curves
    lines = []
    if curves.sampling.rate < 1:
        lines.append(
            f"Sampled: {curves.sampling.rate:.2%} of the blocks, {len(curves.sampling.salts)} times; ± is "
            f"the standard error. LRU is exact; by samples alone it would be off by "
            f"{100 * sum(curves.control) / len(curves.control):.1f} points."
        )
    if plan.knee_blocks is not None:
        rate = curves.lru.rate(plan.knee_blocks)
        lines.append(f"Knee of LRU (Kneedle): {size(plan, plan.knee_blocks)}, {100 * rate:.1f} %.")
    return lines


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD)
