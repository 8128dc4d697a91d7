"""A plan as plain data for programs: one document for JSON, flat rows for Parquet."""

from typing import Any

from kvtune_lab.capacity.advice import sentence
from kvtune_lab.capacity.efficient import efficient
from kvtune_lab.capacity.plan import Plan, cost_per_point
from kvtune_lab.capacity.prices import NO_LIMIT, Money, Tier
from kvtune_lab.capacity.splits import Split


def document(plan: Plan) -> dict[str, Any]:
    """Everything but the splits that others beat. Rates are shares of the prompt tokens, last half."""
    layout, curves = plan.layout, plan.curves
    budget = plan.budget
    return {
        "recommendation": sentence(plan),
        "best": split_row(plan, plan.best),
        "best_by_lru": split_row(plan, plan.best_by_lru),
        "device_alone": split_row(plan, plan.alone),
        "ceiling": plan.ceiling,
        "knee": _capacity(plan, plan.knee_blocks),
        "no_policy_beats_lru_from": _capacity(plan, plan.no_gain_from),
        "no_policy_matters_from": _capacity(plan, plan.no_policy_from),
        "budget": {
            "monthly": budget.monthly if isinstance(budget, Money) and budget != NO_LIMIT else None,
            "bytes_below_the_device": None if isinstance(budget, Money) else budget.size_bytes,
        },
        "bytes_per_token": layout.bytes_per_token,
        "bytes_per_block": layout.bytes_per_block,
        "distinct_blocks": curves.lru.distinct_blocks,
        "sampling": {
            "rate": curves.sampling.rate,
            "salts": len(curves.sampling.salts) if curves.sampling.rate < 1 else 0,
            "lru_error_without_control": list(curves.control),
        },
        "terms": {
            "per_gib_month": {tier.value: price for tier, price in layout.terms.per_gib_month.items()},
            "bytes_per_second": {tier.value: speed for tier, speed in layout.terms.bytes_per_second.items()},
            "prefill_tokens_per_second": layout.terms.prefill_tokens_per_second,
        },
        "curves": curve_rows(plan),
        "splits": [split_row(plan, split) for split in efficient(plan.splits)],
        "rules_of_thumb": [
            {
                "claim": rule.claim,
                "device_multiple": rule.multiple,
                "lru_hit_rate": rule.hit_rate,
                "share_of_ceiling": rule.share_of_ceiling,
            }
            for rule in plan.rules
        ],
    }


def flat_rows(plan: Plan) -> list[dict[str, Any]]:
    """All points of curves and all splits, of the same columns: null where one does not apply."""
    rows = [{"kind": "curve", **row} for row in curve_rows(plan)]
    rows += [{"kind": "split", **split_row(plan, split)} for split in plan.splits]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def curve_rows(plan: Plan) -> list[dict[str, Any]]:
    """One row for each policy and capacity."""
    return [
        {
            "policy": curve.policy.value,
            "capacity_blocks": capacity,
            "capacity_bytes": capacity * plan.layout.bytes_per_block,
            "hit_rate": rate,
            "standard_error": error,
        }
        for curve in plan.curves.policies
        for capacity, rate, error in zip(plan.curves.capacities, curve.rates, curve.errors, strict=True)
    ]


def split_row(plan: Plan, split: Split) -> dict[str, Any]:
    """One row of a split."""
    sizes = {Tier.DEVICE: split.device_blocks, Tier.HOST: split.host_blocks, Tier.DISK: split.disk_blocks}
    return {
        "policy": split.policy.value,
        **{f"{tier}_bytes": blocks * plan.layout.bytes_per_block for tier, blocks in sizes.items()},
        "hit_rate": split.hit_rate,
        "device_hit_rate": split.device_hit_rate,
        "host_hit_rate": split.host_hit_rate,
        "disk_hit_rate": split.disk_hit_rate,
        "prefill_saved": split.prefill_saved,
        "monthly_cost": split.monthly_cost,
        "cost_per_point": cost_per_point(plan, split),
    }


def _capacity(plan: Plan, blocks: int | None) -> dict[str, Any] | None:
    if blocks is None:
        return None
    return {
        "blocks": blocks,
        "bytes": blocks * plan.layout.bytes_per_block,
        "lru_hit_rate": plan.curves.lru.rate(blocks),
    }
