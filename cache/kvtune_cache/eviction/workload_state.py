"""State of WorkloadAware beside the queues of its classes: what it knows of blocks, and kept head scores."""

import math
from typing import Final, NamedTuple

from kvtune_cache.blocks import Integers
from kvtune_cache.classes import CLASSES
from kvtune_cache.eviction.queues import QUEUES
from kvtune_cache.eviction.workload_fit import Fit, plain_fit
from kvtune_cache.eviction.workload_rules import NEUTRAL, WorkloadRules
from kvtune_cache.signals import Floats

DOCUMENTS: Final = CLASSES
DOCUMENT_CLASSES: Final = 32
OLD_TURNS: Final = DOCUMENTS + DOCUMENT_CLASSES
"""Queues: those of kind and turn, then documents by the hash of their first tokens, then the old turns of
sessions that have switched their topic."""

NO_SCORE: Final = math.inf
HOUR_SECONDS: Final = 3600.0
MOST_TURNS: Final = 1000
RUNS: Final = 8
SPATIAL_PARTS: Final = 1024

REQUEST_CLASS: Final = 0
REQUEST_TURN: Final = 1
REQUEST_RUN: Final = 2
REQUEST_OLD: Final = 3
REQUEST_SPATIAL: Final = 4
TOUCHES: Final = 5
CHANGED: Final = 6
STEPS: Final = 7
WORKLOAD_FIELDS: Final = 8
"""Slots of `state`: of the request: its class, its turn, how many answers in a row came fast, how many blocks
are of old turns that have lost their reuse, its spatial score; accesses since the last scoring of all heads;
how many classes have changed; steps of all evictions so far."""


class Workload(NamedTuple):
    """State of WorkloadAware beside the queues: lists or arrays, as `plain_workload` makes them."""

    settings: Floats
    """The numbers of `WorkloadRules`."""

    classes: Integers
    """n classes + 1 of the latest access, kept when a block leaves; 0: never seen."""

    ends: Integers
    """n numbers: RUNS * turn + fast answers of the latest request, for its last two blocks; else 0."""

    spatial: Integers
    """n spatial scores, in SPATIAL_PARTS."""

    scores: Floats
    """QUEUES scores of the heads; NO_SCORE where there is none."""

    tree: Integers
    """2 * QUEUES classes: node i has the one with the lower score of its children 2 i and 2 i + 1."""

    scored: Integers
    """QUEUES slots of `queues.heads`: what the scores are of."""

    changed: Integers
    """QUEUES classes: the first `state[CHANGED]` are to be scored before the next victim is chosen."""

    is_changed: Integers
    """QUEUES times 0 or 1."""

    state: Integers
    """WORKLOAD_FIELDS numbers."""

    fit: Fit


def plain_workload(blocks: int, rules: WorkloadRules = NEUTRAL) -> Workload:
    """Make the state of WorkloadAware of lists, with nothing learnt."""
    settings = rules.settings()
    tree = [0] * QUEUES + list(range(QUEUES))
    for node in range(QUEUES - 1, 0, -1):
        tree[node] = tree[2 * node]
    return Workload(
        settings=settings,
        classes=[0] * blocks,
        ends=[0] * blocks,
        spatial=[0] * blocks,
        scores=[NO_SCORE] * QUEUES,
        tree=tree,
        scored=list(range(QUEUES)),
        changed=[0] * QUEUES,
        is_changed=[0] * QUEUES,
        state=[0] * WORKLOAD_FIELDS,
        fit=plain_fit(blocks, settings),
    )
