"""Put a plan in one sentence with its numbers."""

from kvtune_lab.capacity.plan import MATTERS, Plan, cost_per_point
from kvtune_lab.capacity.prices import NO_LIMIT, Money
from kvtune_lab.capacity.splits import Split
from kvtune_lab.setups import Policy
from kvtune_lab.sizes import in_bytes


def sentence(plan: Plan) -> str:
    """The recommendation, in one sentence."""
    best, lru, alone = plan.best, plan.best_by_lru, plan.alone
    within = "Without a budget" if plan.budget == NO_LIMIT else f"Within {_budget(plan)}"
    if not (best.host_blocks or best.disk_blocks):
        return (
            f"{within} put nothing below the device: its {size(plan, best.device_blocks)} hit "
            f"{_percent(alone.hit_rate)} of the prompt tokens, and nothing"
            f"{'' if plan.budget == NO_LIMIT else ' that the budget allows'} saves {100 * MATTERS:g} point "
            f"more of the prefill time; {_policies(plan)}."
        )
    tiers = " and ".join(
        f"{size(plan, blocks)} of {name}"
        for name, blocks in (("host memory", best.host_blocks), ("disk", best.disk_blocks))
        if blocks
    )
    by_lru = best.policy is Policy.LRU
    per_point = cost_per_point(plan, best)
    each = "" if per_point is None else f", {money(per_point)} for each point of hit rate gained"
    return (
        f"{within} put {tiers} below the device's {size(plan, best.device_blocks)} and run "
        f"{best.policy}: that saves {_percent(best.prefill_saved)} of the prefill time "
        f"({'' if by_lru else f'LRU {_percent(lru.prefill_saved)}, '}the device alone "
        f"{_percent(alone.prefill_saved)}), with {_percent(best.hit_rate)} of the prompt tokens hit "
        f"({'' if by_lru else f'LRU {_percent(lru.hit_rate)}, '}the device alone "
        f"{_percent(alone.hit_rate)}, all that comes back {_percent(plan.ceiling)}), for "
        f"{money(best.monthly_cost)} a month{each}; {_policies(plan)}."
    )


def simulation(split: Split) -> str:
    """What the tiers of the recommended split hit when they are simulated together, in one sentence."""
    tiers = (
        ("device", split.device_blocks, split.device_hit_rate),
        ("host", split.host_blocks, split.host_hit_rate),
        ("disk", split.disk_blocks, split.disk_hit_rate),
    )
    parts = ", ".join(f"{name} {_percent(rate)}" for name, blocks, rate in tiers if blocks)
    return (
        f"Simulated tier by tier this split hits {_percent(split.hit_rate)} of the prompt tokens ({parts})."
    )


def size(plan: Plan, blocks: int) -> str:
    """Blocks in bytes, for a person."""
    return in_bytes(blocks * plan.layout.bytes_per_block)


def money(amount: float) -> str:
    """An amount for a person: whole from 100 on."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.4g}"


def _budget(plan: Plan) -> str:
    if isinstance(plan.budget, Money):
        return f"{plan.budget.monthly:,.10g} a month"
    return in_bytes(plan.budget.size_bytes)


def _policies(plan: Plan) -> str:
    """Where policies stop to matter, as far as policies were measured."""
    measured = [curve.policy for curve in plan.curves.policies if curve.policy is not Policy.OPT]
    if len(measured) < 2:
        return "no policy but LRU was measured"
    none, no_gain = plan.no_policy_from, plan.no_gain_from
    point = f"{100 * MATTERS:g} point"
    gain = (
        "" if no_gain in (None, none) else f"above {size(plan, no_gain or 0)} none beats LRU by {point}, and "
    )
    if len(measured) == len(Policy) - 1:
        every, nothing, names = "all policies", "no policy", "all"
    else:
        every = names = f"{', '.join(measured[:-1])} and {measured[-1]}"
        nothing = "none of the measured policies"
    if none is None:
        return f"{gain}at no measured capacity are {every} within {point}"
    return f"{gain}above {size(plan, none)} {nothing} matters ({names} within {point})"


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"
