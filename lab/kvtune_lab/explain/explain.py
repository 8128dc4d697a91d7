"""Explain a trace: how far policies are from what can be known, and from what nobody can.

Called by `kvtune explain`. All rates are shares of the prompt tokens of the last half, one for each capacity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.curves import (
    WHOLE_REFERENCES_MAX,
    Curves,
    PolicyCurve,
    Progress,
    Sampling,
    policy_curves,
)
from kvtune_lab.explain.bound import SCHEMES, bound, hinted
from kvtune_lab.explain.hints import hinted_rates
from kvtune_lab.explain.tally import tallied
from kvtune_lab.setups import Policy

ACCURACIES: Final = (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
OURS: Final = "ReuseAware"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is knowable of a trace, and what policies make of it."""

    curves: Curves
    """LRU, ours where the cache has it, OPT, and what else was asked for."""

    bounds: dict[str, tuple[float, ...]]
    """Per scheme of classes (bound.SCHEMES) the best hold times in hindsight."""

    hints: dict[float, tuple[float, ...]]
    """Per accuracy the bound of all classes and a client's hint."""

    with_hints: dict[float, tuple[float | None, ...]]
    """Per accuracy what ours hits with such hints, simulated; None where it was not: of a large trace it is
    simulated at one capacity, where most is to be gained."""

    def of(self, name: str) -> PolicyCurve | None:
        """The curve of a policy; None where it was not run."""
        return next((curve for curve in self.curves.policies if curve.policy.value == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a policy has come at one capacity, in points of hit rate over LRU."""

    capacity_blocks: int
    lru: float
    """Hit rate, a share."""

    ours: float | None
    knowable: float
    """Of the class-oracle bound, or of OPT where that is less: the bound keeps to the room on average, so
    it says nothing where load comes in bursts or requests are as large as the cache."""

    possible: float
    """Of OPT."""


def explain(
    requests: Requests,
    capacities: Sequence[int],
    *,
    sampling: Sampling,
    accuracies: Sequence[float] = ACCURACIES,
    policies: Sequence[Policy] = (),
    progress: Progress = lambda _done, _of: None,
) -> Explained:
    """Measure a trace; raises ValueError where it is not chained, or takes no time."""
    tally = tallied(requests)
    ours = [policy for policy in Policy if policy.value == OURS]
    wanted = list(dict.fromkeys([Policy.LRU, *ours, Policy.OPT, *policies]))
    curves = policy_curves(requests, wanted, capacities, sampling=sampling, progress=progress)
    known = SCHEMES["all classes"]
    found = Explained(
        curves=curves,
        bounds={name: tuple(bound(tally, capacities, axes)) for name, axes in SCHEMES.items()},
        hints={accuracy: tuple(hinted(tally, capacities, known, accuracy)) for accuracy in accuracies},
        with_hints={},
    )
    small = len(requests.blocks) <= WHOLE_REFERENCES_MAX
    at = list(capacities) if small else [most_to_gain(found).capacity_blocks]
    rates = hinted_rates(requests, at, accuracies, progress=progress)
    by_accuracy = {accuracy: dict(zip(at, row, strict=True)) for accuracy, row in rates.items()}
    return replace(
        found,
        with_hints={accuracy: tuple(map(by_accuracy[accuracy].get, capacities)) for accuracy in accuracies},
    )


def most_to_gain(explained: Explained) -> "Distance":
    """The capacity at which what is knowable is worth most."""
    return max(distances(explained), key=lambda one: one.knowable)


def distances(explained: Explained) -> list[Distance]:
    """One for each capacity."""
    lru, ours, opt = (explained.of(name) for name in ("LRU", OURS, "OPT"))
    assert lru is not None and opt is not None
    return [
        Distance(
            capacity_blocks=capacity,
            lru=lru.rates[i],
            ours=None if ours is None else 100 * (ours.rates[i] - lru.rates[i]),
            knowable=100 * (min(explained.bounds["all classes"][i], opt.rates[i]) - lru.rates[i]),
            possible=100 * (opt.rates[i] - lru.rates[i]),
        )
        for i, capacity in enumerate(explained.curves.capacities)
    ]
