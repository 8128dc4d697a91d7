"""What ReuseAware has learned: how soon a block is touched again, by the class of its last touch and its age.

Read from the policy's tables after a replay. Classes have levels on the policy's own axes; rates are touches
a second of a block that is still waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.names import REUSE_AWARE
from kvtune_cache.requests import Requests, serve_all
from kvtune_cache.reuse_aware.classes import AXES
from kvtune_cache.reuse_aware.fit import CELL_EVENTS, factor_of, hazard, spread_of
from kvtune_cache.reuse_aware.persistence import restore
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.reuse_aware.state import AGES, BINS, USED, Reuse
from kvtune_cache.rules import Rules
from kvtune_lab.explain.hints import PLAIN_REFERENCES
from kvtune_lab.readers.loaded import as_lists, as_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedClass:
    """One class that was seen; a number of each bin of age."""

    levels: tuple[int, ...]
    events: tuple[float, ...]
    """Touches that ended a wait, old ones forgotten by halves."""

    exposure_s: tuple[float, ...]
    hazard_per_s: tuple[float, ...]
    """As fitted: shrunk to what the levels lead to expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """All classes; bin b of age is from edge b to edge b + 1."""

    edges_s: tuple[float, ...]
    classes: tuple[LearnedClass, ...]

    def by_level(self, axis: int) -> dict[int, list[float | None]]:
        """The hazard of each level of an axis by bin: over its classes, weighted by exposure; None: none."""
        found = {}
        for level in sorted({one.levels[axis] for one in self.classes}):
            members = [one for one in self.classes if one.levels[axis] == level]
            found[level] = [_mean(members, b) for b in range(len(self.edges_s) - 1)]
        return found


def _mean(members: Sequence[LearnedClass], b: int) -> float | None:
    exposure = sum(one.exposure_s[b] for one in members)
    if exposure <= 0:
        return None
    return sum(one.hazard_per_s[b] * one.exposure_s[b] for one in members) / exposure


def learn(requests: Requests, capacity_blocks: int) -> Learned:
    """Replay a trace through ReuseAware and read what it has learned at the end."""
    rules, count = Rules(REUSE_AWARE, capacity_blocks), len(requests.starts) - 1
    cache = plain_cache(int(np.max(requests.blocks)) + 1, REUSE_AWARE)
    if len(requests.blocks) <= PLAIN_REFERENCES:
        serve_all(cache, rules, as_lists(requests), [0] * count)
        return learned_by(cache.reuse)
    from kvtune_lab.compiled import as_arrays, compiled  # loads numba, which small traces can do without

    arrays = as_arrays(cache)
    found: Any = np.zeros(count, np.int32)
    compiled(serve_all, policy=REUSE_AWARE)(arrays, rules, as_requests(*requests), found)
    return learned_by(arrays.reuse)


def learned_from(kept: Mapping[str, object]) -> Learned:
    """Read what a policy has told of itself; raises ValueError, naming the field, for another version's."""
    reuse = plain_reuse(1)
    restore(reuse, kept)
    return learned_by(reuse)


def learned_by(reuse: Reuse) -> Learned:
    """Read the tables of a policy that has learned something."""
    return Learned(
        edges_s=tuple(float(edge) for edge in reuse.classes.edges[: AGES + 1]),
        classes=tuple(_class(reuse, slot) for slot in range(int(reuse.numbers[USED]))),
    )


def _class(reuse: Reuse, slot: int) -> LearnedClass:
    classes, cells, first = reuse.classes, reuse.cells, slot * BINS
    weight = CELL_EVENTS * spread_of(reuse, slot)
    factors = [factor_of(classes, slot, classes.group[b]) for b in range(AGES)]
    return LearnedClass(
        levels=tuple(int(level) for level in classes.levels[slot * AXES : (slot + 1) * AXES]),
        events=tuple(float(cells.events[first + b]) for b in range(AGES)),
        exposure_s=tuple(max(0.0, float(cells.exposure[first + b])) for b in range(AGES)),
        hazard_per_s=tuple(float(hazard(reuse, slot, b, weight, factors[b])) for b in range(AGES)),
    )
