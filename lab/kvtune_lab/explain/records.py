"""An explanation as plain data for programs."""

from dataclasses import asdict
from typing import Any

from kvtune_cache.reuse_aware.axes import AXIS_NAMES, LEVEL_NAMES
from kvtune_lab.explain.explain import Explained, distances
from kvtune_lab.explain.learned import Learned


def document(explained: Explained) -> dict[str, Any]:
    """Rates are shares of the prompt tokens of the last half, one for each capacity; distances points."""
    curves = explained.curves
    return {
        "capacities_blocks": list(curves.capacities),
        "distinct_blocks": curves.lru.distinct_blocks,
        "ceiling": curves.lru.rate(curves.lru.distinct_blocks),
        "policies": {
            curve.policy.value: {"hit_rate": list(curve.rates), "standard_error": list(curve.errors)}
            for curve in curves.policies
        },
        "bounds": {name: list(rates) for name, rates in explained.bounds.items()},
        "hints": [
            {
                "accuracy": accuracy,
                "bound": list(rates),
                "simulated": list(explained.with_hints[accuracy]),
            }
            for accuracy, rates in explained.hints.items()
        ],
        "distances": [asdict(one) for one in distances(explained)],
    }


def learned_document(learned: Learned) -> dict[str, Any]:
    """The hazard of every class by age; levels are named as on the plot."""
    return {
        "edges_s": list(learned.edges_s),
        "classes": [
            {
                "levels": {name: LEVEL_NAMES[axis][one.levels[axis]] for axis, name in enumerate(AXIS_NAMES)},
                "events": list(one.events),
                "exposure_s": list(one.exposure_s),
                "hazard_per_s": list(one.hazard_per_s),
            }
            for one in learned.classes
        ],
    }
