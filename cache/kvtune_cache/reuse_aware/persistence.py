"""Keep what ReuseAware has learned over a restart, as plain numbers that JSON can hold.

What is kept is what was counted, not what was fitted to it. It means something only for the same axes and the
same bins of age, so that both go with it. Blocks are not kept: none is known after a restart."""

import math
from collections.abc import Mapping, Sequence

from kvtune_cache.reuse_aware.classes import CLASSES, HINT_LEVELS, KIND_LEVELS
from kvtune_cache.reuse_aware.cohorts import cohort_slot
from kvtune_cache.reuse_aware.fit import fit
from kvtune_cache.reuse_aware.learning import remember
from kvtune_cache.reuse_aware.state import (
    AGES,
    BASE,
    BINS,
    LENGTH_MEAN,
    NEXT_FIT,
    REQUESTS,
    SERVED_AT,
    USED,
    Reuse,
    age_edges,
)

VERSION = 1

COUNTED_MAX = 1e30
"""More than was ever counted, and small enough to be squared."""

LEVELS_OF_AXES = [3, 3, 3, 3, 2, KIND_LEVELS, HINT_LEVELS]


def learned(reuse: Reuse) -> dict[str, object]:
    """Tell what has been learned up to the request that was served last."""
    classes = reuse.classes
    return {
        "version": VERSION,
        "levels": LEVELS_OF_AXES,
        "edges": age_edges(),
        "requests": int(reuse.numbers[REQUESTS]),
        "length_mean": float(reuse.reals[LENGTH_MEAN]),
        "classes": {
            str(int(classes.number[slot])): _counted(reuse, slot) for slot in range(reuse.numbers[USED])
        },
    }


def restore(reuse: Reuse, kept: Mapping[str, object]) -> None:
    """Begin with what `learned` has told; `reuse` is as it was made.

    Raises ValueError, naming the field, for what does not come from the same version, axes and bins, or holds
    numbers that cannot have been counted. Nothing is changed then.
    """
    _same(kept, "version", VERSION)
    _same(kept, "levels", LEVELS_OF_AXES)
    _same(kept, "edges", age_edges())
    requests = _number(kept.get("requests"), "requests")
    length = _number(kept.get("length_mean"), "length_mean")
    classes = kept.get("classes")
    if not isinstance(classes, Mapping):
        raise ValueError(f"classes: {classes!r} is not a mapping")
    rows = [_row(name, counted) for name, counted in classes.items()]
    for number, events, exposure, cluster in rows:
        slot = cohort_slot(reuse, number)
        for b in range(AGES):
            reuse.cells.events[slot * BINS + b] = events[b]
            reuse.cells.exposure[slot * BINS + b] = exposure[b]
        reuse.classes.cluster[slot], reuse.classes.cluster_squares[slot] = cluster
    reuse.numbers[REQUESTS] = reuse.numbers[NEXT_FIT] = int(min(requests, 2.0**31 - 2))
    reuse.reals[LENGTH_MEAN] = length
    fit(reuse)
    remember(reuse)


def _counted(reuse: Reuse, slot: int) -> dict[str, object]:
    """Events, exposure up to now, and the clusters of a class."""
    cells, classes, first = reuse.cells, reuse.classes, slot * BINS
    passed = reuse.reals[SERVED_AT] - reuse.reals[BASE]
    return {
        "events": [float(cells.events[cell]) for cell in range(first, first + AGES)],
        "exposure": [
            max(0.0, float(cells.exposure[cell] + cells.waiting[cell] * passed))
            for cell in range(first, first + AGES)
        ],
        "cluster": [float(classes.cluster[slot]), float(classes.cluster_squares[slot])],
    }


def _row(name: object, counted: object) -> tuple[int, list[float], list[float], list[float]]:
    """Check one class of what was kept."""
    if not isinstance(name, str) or not name.isdecimal() or not int(name) < CLASSES:
        raise ValueError(f"classes: {name!r} is not a class below {CLASSES}")
    if not isinstance(counted, Mapping):
        raise ValueError(f"classes.{name}: {counted!r} is not a mapping")
    return (
        int(name),
        _numbers(counted.get("events"), f"classes.{name}.events", AGES),
        _numbers(counted.get("exposure"), f"classes.{name}.exposure", AGES),
        _numbers(counted.get("cluster"), f"classes.{name}.cluster", 2),
    )


def _same(kept: Mapping[str, object], field: str, expected: object) -> None:
    if kept.get(field) != expected:
        raise ValueError(f"{field}: {kept.get(field)!r} is not {expected!r}")


def _numbers(values: object, field: str, count: int) -> list[float]:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        raise ValueError(f"{field}: {values!r} is not a list of {count} numbers")
    return [_number(value, field) for value in values]


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{field}: {value!r} is not a number >= 0")
    if value > COUNTED_MAX:
        raise ValueError(f"{field}: is more than {COUNTED_MAX:g}, which nobody has counted")
    return float(value)
