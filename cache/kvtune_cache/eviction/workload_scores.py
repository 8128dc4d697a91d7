"""Scores of the heads of WorkloadAware's classes, kept, and the lowest of them.

A head is scored when it has changed, and all heads when so many accesses have passed that the scores have
grown old. A tree over the classes has the lowest score at its root, one step a level.
"""

import math

from kvtune_cache.blocks import NO_BLOCK, BlockTable
from kvtune_cache.eviction.queues import PASSED, QUEUES, Queues, head, is_new_request, reopen
from kvtune_cache.eviction.workload_fit import LEARNED, RATE, p_reuse
from kvtune_cache.eviction.workload_rules import (
    HOUR_PHASE,
    LIFE_WEIGHT,
    LONGEST_WINDOW,
    P_REUSE_WEIGHT,
    RELAX_FACTOR,
    RELAX_SPAN,
    RESCORE_TOUCHES,
    SPATIAL_WEIGHT,
)
from kvtune_cache.eviction.workload_state import (
    CHANGED,
    HOUR_SECONDS,
    NO_SCORE,
    OLD_TURNS,
    SPATIAL_PARTS,
    STEPS,
    TOUCHES,
    Workload,
)


def priority(w: Workload, queues: Queues, x: int, k: int, now: float) -> float:
    """Score block x of class k: the weighted sum of p_reuse, spatial and life, each from 0 to 1."""
    settings, age = w.settings, now - queues.last[x]
    window = min(2.0 / w.fit.learned[k * LEARNED + RATE], settings[LONGEST_WINDOW])
    if settings[HOUR_PHASE] >= 0.0 and (now + settings[HOUR_PHASE]) % HOUR_SECONDS < settings[RELAX_SPAN]:
        window *= settings[RELAX_FACTOR]
    life = 1.0 if age <= window else math.exp(1.0 - age / window)
    again = 0.0 if k == OLD_TURNS else p_reuse(w.fit, k, age, window)
    spatial = w.spatial[x] / SPATIAL_PARTS
    score = settings[P_REUSE_WEIGHT] * again + settings[SPATIAL_WEIGHT] * spatial
    return score + settings[LIFE_WEIGHT] * life


def note_head(w: Workload, queues: Queues, k: int) -> None:
    """Note a class whose head is not the one that was scored."""
    if queues.heads[k] != w.scored[k] and w.is_changed[k] == 0:
        w.is_changed[k] = 1
        w.changed[w.state[CHANGED]] = k
        w.state[CHANGED] += 1


def score_changed(w: Workload, queues: Queues, table: BlockTable, now: float) -> None:
    """Score the heads that have changed, and all of them where the scores have grown old."""
    if is_new_request(queues, table):
        passed = queues.state[PASSED]
        reopen(queues, table)
        for i in range(passed):
            note_head(w, queues, queues.passed[i])
    for i in range(w.state[CHANGED]):
        w.is_changed[w.changed[i]] = 0
        score_head(w, queues, table, w.changed[i], now)
    w.state[CHANGED] = 0
    if w.state[TOUCHES] >= w.settings[RESCORE_TOUCHES]:
        w.state[TOUCHES] = 0
        for k in range(QUEUES):
            if w.scores[k] != NO_SCORE:
                score_head(w, queues, table, k, now)


def score_head(w: Workload, queues: Queues, table: BlockTable, k: int, now: float) -> None:
    """Score the head of class k, and let the lowest score rise to the root."""
    x = head(queues, table, k)
    w.scored[k] = queues.heads[k]
    w.scores[k] = NO_SCORE if x == NO_BLOCK else priority(w, queues, x, k, now)
    w.state[STEPS] += 1
    node = (QUEUES + k) // 2
    while node > 0:
        left, right = w.tree[2 * node], w.tree[2 * node + 1]
        w.tree[node] = left if w.scores[left] <= w.scores[right] else right
        w.state[STEPS] += 1
        node //= 2
