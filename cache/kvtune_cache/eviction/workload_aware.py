"""WorkloadAware: blocks of request classes whose reuse is unlikely leave first.

After the article's policy (systems.md, section 3): priority = .5 p_reuse + .3 spatial + .2 life, lowest goes
first. A request's class is its kind and turn, or the first tokens of its document, or what the caller says;
turn and topic switch are inferred from the blocks where the caller does not know them. Each class has a queue
in order of last access; of a class only the head is scored, and only when it has changed or the scores have
grown old. The lowest of the kept scores stands at the root of a tree, so that an eviction takes the same few
steps whatever the number of blocks, and nearly so whatever that of classes.
"""

import math
from typing import Final, NamedTuple

from kvtune_cache.blocks import (
    NO_BLOCK,
    RECENT,
    RESIDENT,
    SIZES,
    BlockTable,
    Integers,
    leave,
    link,
    unlink,
)
from kvtune_cache.eviction.queues import (
    NO_QUEUE,
    PASSED,
    QUEUES,
    Queues,
    dequeue,
    enqueue,
    head,
    is_new_request,
    reopen,
)
from kvtune_cache.eviction.workload_fit import LEARNED, RATE, Fit, is_sampled, learn, p_reuse, plain_fit
from kvtune_cache.eviction.workload_rules import (
    BLOCK_TOKENS,
    HOUR_PHASE,
    LIFE_WEIGHT,
    LONG_CONTEXT,
    LONG_CONTEXT_FACTOR,
    LONGEST_WINDOW,
    NEUTRAL,
    P_REUSE_WEIGHT,
    RELAX_FACTOR,
    RELAX_SPAN,
    RESCORE_TOUCHES,
    SPATIAL_WEIGHT,
    TOPIC_ANSWERS,
    TOPIC_GAP,
    WorkloadRules,
)
from kvtune_cache.signals import (
    CLASS,
    KIND,
    LENGTH,
    NOW,
    POSITION,
    PROMPT_TOKENS,
    SIGNATURE,
    SWITCHED,
    TURN,
    Floats,
)

TURN_BUCKETS: Final = 5
"""Turn 1, 2, 3, 4 to 5, 6 and later: the buckets in which chat differs (cache.md, table of classes)."""

DOCUMENTS: Final = 30
DOCUMENT_CLASSES: Final = 32
OLD_TURNS: Final = 62
"""Classes: 6 kinds x 5 turn buckets, then documents by the hash of their first tokens, then the old turns of
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


def workload_begin(
    w: Workload, queues: Queues, table: BlockTable, request: Floats, blocks: Integers, start: int, stop: int
) -> None:
    """Find class, turn, topic switch and spatial score of a request."""
    i = start
    while i < stop and table.where[blocks[i]] > RESIDENT:
        i += 1
    matched = i - start
    while i < stop and w.classes[blocks[i]] > 0:
        i += 1
    end = w.ends[blocks[i - 1]] if i > start else 0
    turn = min(MOST_TURNS, int(request[TURN]) if request[TURN] > 0 else end // RUNS + 1)
    run = 1
    if end > 0 and request[NOW] - queues.last[blocks[i - 1]] < w.settings[TOPIC_GAP]:
        run = min(RUNS - 1, end % RUNS + 1)
    answers = int(w.settings[TOPIC_ANSWERS])
    switched = request[SWITCHED] == 1.0 or 0 < answers <= run
    w.state[REQUEST_CLASS] = _class(request, turn)
    w.state[REQUEST_TURN] = turn
    w.state[REQUEST_RUN] = run
    w.state[REQUEST_OLD] = i - start if switched else 0
    w.state[REQUEST_SPATIAL] = _spatial(w.settings, request, matched, stop - start)


def workload_hit(w: Workload, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Give x the class and the scores of this request, as the newest of its class."""
    _touch(w, queues, request, x)
    unlink(table, x)
    link(table, x, RECENT)


def workload_miss(
    w: Workload, queues: Queues, table: BlockTable, request: Floats, x: int, capacity: int
) -> None:
    """Take x in as the newest of its class; leave it out where every resident block is pinned."""
    full = table.state[SIZES + RECENT] >= capacity
    if full and workload_evict(w, queues, table, request) == NO_BLOCK:
        return
    _touch(w, queues, request, x)
    link(table, x, RECENT)


def workload_evict(w: Workload, queues: Queues, table: BlockTable, request: Floats) -> int:
    """Let the head with the lowest priority go; NO_BLOCK when every resident block is pinned."""
    now = request[NOW]
    _rescore(w, queues, table, now)
    k = w.tree[1]
    while w.scores[k] != NO_SCORE:
        x = head(queues, table, k)
        if queues.heads[k] == w.scored[k]:
            dequeue(queues, x)
            leave(table, x)
            _score(w, queues, table, k, now)
            return x
        _score(w, queues, table, k, now)
        k = w.tree[1]
    return NO_BLOCK


def workload_drop(w: Workload, queues: Queues, table: BlockTable, x: int) -> None:
    """Take a resident block out for another reason than pressure."""
    k = dequeue(queues, x)
    _note(w, queues, k)
    unlink(table, x)


def workload_adopt(w: Workload, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Take over a block that was resident under another policy, as the newest of the class it was last in."""
    k = max(0, w.classes[x] - 1)
    w.classes[x] = k + 1
    enqueue(queues, x, k, request[NOW])
    _note(w, queues, k)
    link(table, x, RECENT)


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


def _class(request: Floats, turn: int) -> int:
    """Give the class of a request: as the caller says, else by its document, else by kind and turn."""
    if request[CLASS] > 0:
        return min(OLD_TURNS, int(request[CLASS])) - 1
    if request[SIGNATURE] > 0:
        return DOCUMENTS + int(request[SIGNATURE]) % DOCUMENT_CLASSES
    bucket = min(turn, 4) if turn < 6 else 5
    return int(request[KIND]) * TURN_BUCKETS + bucket - 1


def _spatial(settings: Floats, request: Floats, matched: int, length: int) -> int:
    """Give the share of a prompt that was matched, raised for long contexts, in SPATIAL_PARTS."""
    tokens = request[PROMPT_TOKENS] if request[PROMPT_TOKENS] > 0 else length * settings[BLOCK_TOKENS]
    share = matched / max(1, length)
    if tokens > settings[LONG_CONTEXT]:
        share *= settings[LONG_CONTEXT_FACTOR]
    return int(SPATIAL_PARTS * min(1.0, share))


def _touch(w: Workload, queues: Queues, request: Floats, x: int) -> None:
    """Learn from an access to x, and make x the newest of the class of its request."""
    now, position = request[NOW], request[POSITION]
    if is_sampled(w.settings, x):
        learn(w.fit, w.settings, w.classes, queues.last, x, now)
    if queues.queue[x] != NO_QUEUE:
        before = dequeue(queues, x)
        _note(w, queues, before)
    k = OLD_TURNS if position < w.state[REQUEST_OLD] else w.state[REQUEST_CLASS]
    at_end = position >= request[LENGTH] - 2
    w.classes[x] = k + 1
    w.ends[x] = RUNS * w.state[REQUEST_TURN] + w.state[REQUEST_RUN] if at_end else 0
    w.spatial[x] = w.state[REQUEST_SPATIAL]
    w.state[TOUCHES] += 1
    enqueue(queues, x, k, now)
    _note(w, queues, k)


def _note(w: Workload, queues: Queues, k: int) -> None:
    """Note a class whose head is not the one that was scored."""
    if queues.heads[k] != w.scored[k] and w.is_changed[k] == 0:
        w.is_changed[k] = 1
        w.changed[w.state[CHANGED]] = k
        w.state[CHANGED] += 1


def _rescore(w: Workload, queues: Queues, table: BlockTable, now: float) -> None:
    """Score the heads that have changed, and all of them where the scores have grown old."""
    if is_new_request(queues, table):
        passed = queues.state[PASSED]
        reopen(queues, table)
        for i in range(passed):
            _note(w, queues, queues.passed[i])
    for i in range(w.state[CHANGED]):
        w.is_changed[w.changed[i]] = 0
        _score(w, queues, table, w.changed[i], now)
    w.state[CHANGED] = 0
    if w.state[TOUCHES] >= w.settings[RESCORE_TOUCHES]:
        w.state[TOUCHES] = 0
        for k in range(QUEUES):
            if w.scores[k] != NO_SCORE:
                _score(w, queues, table, k, now)


def _score(w: Workload, queues: Queues, table: BlockTable, k: int, now: float) -> None:
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
