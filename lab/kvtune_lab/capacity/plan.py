"""Plan a cache from curves and terms: the knee, where policies stop to matter, the best split for a budget.

Called by `kvtune capacity`. A plan is values alone; advice.py puts it in words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kvtune_lab.capacity.curves import Curves
from kvtune_lab.capacity.knee import knee
from kvtune_lab.capacity.prices import Budget, Money
from kvtune_lab.capacity.splits import Layout, Split, splits
from kvtune_lab.setups import Policy

MATTERS: Final = 0.005
"""Half a point of hit rate: less does not matter, between policies and between splits."""

KNEE_POINTS: Final = 4_000
"""Points of the exact curve that the knee is looked for at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOfThumb:
    """A published rule, beside what this trace says."""

    claim: str
    multiple: float
    """Of the device, all tiers together."""

    hit_rate: float
    share_of_ceiling: float | None
    """None where nothing can be hit at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is said about a trace's capacity; capacities are blocks, rates of the last half."""

    curves: Curves
    layout: Layout
    budget: Budget
    ceiling: float
    knee_blocks: int | None
    """Of LRU's exact curve (Kneedle, linear axes)."""

    no_gain_from: int | None
    """From this measured capacity on no policy hits half a point more than LRU; None: not at any."""

    no_policy_from: int | None
    """From this one on all policies are within half a point of each other."""

    splits: tuple[Split, ...]
    alone: Split
    """The device with nothing below it."""

    best: Split
    """Of what the budget allows the cheapest that saves within half a point of the most; under LRU where its
    policy saves less than half a point more on the same tiers."""

    best_by_lru: Split
    """The same tiers under LRU."""

    rules: tuple[RuleOfThumb, ...]


def plan(curves: Curves, layout: Layout, budget: Budget) -> Plan:
    """Work out a plan; the curves must hold LRU."""
    found = tuple(splits(curves, layout))
    alone = next(split for split in found if not (split.host_blocks or split.disk_blocks))
    best, best_by_lru = _best(found, [split for split in found if _allowed(split, layout, budget)])
    ceiling = curves.lru.rate(curves.lru.distinct_blocks)
    return Plan(
        curves=curves,
        layout=layout,
        budget=budget,
        ceiling=ceiling,
        knee_blocks=_knee(curves),
        no_gain_from=_settled(curves, _gain),
        no_policy_from=_settled(curves, _spread),
        splits=found,
        alone=alone,
        best=best,
        best_by_lru=best_by_lru,
        rules=_rules(curves, layout, ceiling),
    )


def points_gained(plan: Plan, split: Split) -> float:
    """Points of hit rate over the device alone."""
    return 100 * (split.hit_rate - plan.alone.hit_rate)


def cost_per_point(plan: Plan, split: Split) -> float | None:
    """What a point of hit rate costs a month over the device alone; None where nothing is gained."""
    points = points_gained(plan, split)
    return split.monthly_cost / points if points > 1e-9 else None


def _tiers(split: Split) -> tuple[int, int]:
    return split.host_blocks, split.disk_blocks


def _allowed(split: Split, layout: Layout, budget: Budget) -> bool:
    if isinstance(budget, Money):
        return split.monthly_cost <= budget.monthly
    return (split.host_blocks + split.disk_blocks) * layout.bytes_per_block <= budget.size_bytes


def _best(found: Sequence[Split], allowed: Sequence[Split]) -> tuple[Split, Split]:
    """The cheapest of those that save within half a point of the most, and the same tiers under LRU.

    LRU itself where its policy saves less than half a point more on these tiers. The device alone costs
    nothing, so it is always among those allowed.
    """
    most = max(split.prefill_saved for split in allowed)
    near = [split for split in allowed if split.prefill_saved >= most - MATTERS]
    best = min(near, key=lambda split: (split.monthly_cost, -split.prefill_saved))
    lru = next(split for split in found if split.policy is Policy.LRU and _tiers(split) == _tiers(best))
    return (lru if best.prefill_saved - lru.prefill_saved < MATTERS else best), lru


def _knee(curves: Curves) -> int | None:
    distinct = curves.lru.distinct_blocks
    capacities = np.unique(np.linspace(0, distinct, KNEE_POINTS).astype(np.int64))
    found = knee(capacities.tolist(), curves.lru.tokens_last_half[capacities].tolist())
    return None if found is None else int(capacities[found.index])


def _gain(rates: Sequence[float], lru: float) -> float:
    return max(rates) - lru


def _spread(rates: Sequence[float], lru: float) -> float:
    return max(*rates, lru) - min(*rates, lru)


def _settled(curves: Curves, gap: Callable[[Sequence[float], float], float]) -> int | None:
    """The least measured capacity from which on a gap stays below what matters."""
    settled = None
    policies = [curve.rates for curve in curves.policies if curve.policy is not Policy.OPT]
    for i in range(len(curves.capacities) - 1, -1, -1):
        if gap([rates[i] for rates in policies], curves.lru.rate(curves.capacities[i])) >= MATTERS:
            break
        settled = curves.capacities[i]
    return settled


def _rules(curves: Curves, layout: Layout, ceiling: float) -> tuple[RuleOfThumb, ...]:
    """Published: KVCache in the wild (USENIX ATC'25), as systems.md section 17 gives it; claims, not ours."""
    claims = (
        ("LRU 51 % with 1 x HBM (of a ceiling of 90 %)", 1.0),
        ("to-B: 2 x HBM is enough (LRU 89 % of a ceiling of 90 %)", 2.0),
        ("to-C: 3 x HBM is enough", 3.0),
    )
    rates = [curves.lru.rate(round(layout.device_blocks * multiple)) for _, multiple in claims]
    return tuple(
        RuleOfThumb(
            claim=claim,
            multiple=multiple,
            hit_rate=rate,
            share_of_ceiling=rate / ceiling if ceiling > 0 else None,
        )
        for (claim, multiple), rate in zip(claims, rates, strict=True)
    )
