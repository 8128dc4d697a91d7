"""Of many splits those worth a look: no other costs no more and saves as much."""

from collections.abc import Iterable

from kvtune_lab.capacity.splits import Split

LEAST_GAIN = 0.001
"""A tenth of a point: a dearer split that saves no more than this beyond a cheaper one is left out."""


def efficient(splits: Iterable[Split]) -> list[Split]:
    """The Pareto front, cheapest first, in steps that save something."""
    front: list[Split] = []
    for split in sorted(splits, key=lambda split: (split.monthly_cost, -split.prefill_saved)):
        if not front or split.prefill_saved > front[-1].prefill_saved + LEAST_GAIN:
            front.append(split)
    return front
