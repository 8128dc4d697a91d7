"""WorkloadAware: blocks of request classes whose reuse is unlikely leave first.

After the article's policy (systems.md, section 3): priority = .5 p_reuse + .3 spatial + .2 life, lowest goes
first. A request's class is its kind and turn, or the first tokens of its document, or what the caller says;
turn and topic switch are inferred from the blocks where the caller does not know them. Each class has a queue
in order of last access; of a class only the head is scored, and only when it has changed or the scores have
grown old. The lowest of the kept scores stands at the root of a tree, so that an eviction takes the same few
steps whatever the number of blocks, and nearly so whatever that of classes.
"""

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
from kvtune_cache.classes import class_of
from kvtune_cache.eviction.queues import NO_QUEUE, Queues, dequeue, enqueue, head
from kvtune_cache.eviction.workload_fit import forget_access, is_sampled, learn
from kvtune_cache.eviction.workload_rules import (
    BLOCK_TOKENS,
    LONG_CONTEXT,
    LONG_CONTEXT_FACTOR,
    TOPIC_ANSWERS,
    TOPIC_GAP,
)
from kvtune_cache.eviction.workload_scores import note_head, score_changed, score_head
from kvtune_cache.eviction.workload_state import (
    DOCUMENT_CLASSES,
    DOCUMENTS,
    MOST_TURNS,
    NO_SCORE,
    OLD_TURNS,
    REQUEST_CLASS,
    REQUEST_OLD,
    REQUEST_RUN,
    REQUEST_SPATIAL,
    REQUEST_TURN,
    RUNS,
    SPATIAL_PARTS,
    STEPS,
    TOUCHES,
    Workload,
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
    score_changed(w, queues, table, now)
    k = w.tree[1]
    while w.scores[k] != NO_SCORE:
        x = head(queues, table, k)
        if queues.heads[k] == w.scored[k]:
            dequeue(queues, x)
            leave(table, x)
            if not _follows_its_like(w, queues, table, k, x):
                score_head(w, queues, table, k, now)
            return x
        score_head(w, queues, table, k, now)
        k = w.tree[1]
    return NO_BLOCK


def workload_drop(w: Workload, queues: Queues, table: BlockTable, x: int) -> None:
    """Take a resident block out for another reason than pressure."""
    k = dequeue(queues, x)
    note_head(w, queues, k)
    leave(table, x)


def workload_adopt(w: Workload, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Take over a block that was resident under another policy, as the newest of the class it was last in."""
    k = max(0, w.classes[x] - 1)
    enqueue(queues, x, k, request[NOW])
    note_head(w, queues, k)
    link(table, x, RECENT)


def workload_forget(w: Workload, x: int) -> None:
    """Let the number x stand for a block that was never seen."""
    w.classes[x] = 0
    w.ends[x] = 0
    forget_access(w.fit, x)


def _follows_its_like(w: Workload, queues: Queues, table: BlockTable, k: int, x: int) -> bool:
    """Keep the score of the victim x for the next head of its class where it is of the same request."""
    y = head(queues, table, k)
    if y == NO_BLOCK or queues.last[y] != queues.last[x] or w.spatial[y] != w.spatial[x]:
        return False
    w.scored[k] = queues.heads[k]
    w.state[STEPS] += 1
    return True


def _class(request: Floats, turn: int) -> int:
    """Give the class of a request: as the caller says, else by its document, else by kind and turn."""
    if request[CLASS] > 0:
        return min(OLD_TURNS, int(request[CLASS])) - 1
    if request[SIGNATURE] > 0:
        return DOCUMENTS + int(request[SIGNATURE]) % DOCUMENT_CLASSES
    return class_of(int(request[KIND]), turn)


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
    k = OLD_TURNS if position < w.state[REQUEST_OLD] else w.state[REQUEST_CLASS]
    if is_sampled(w.settings, x):
        learn(w.fit, w.settings, x, k, now)
    if queues.queue[x] != NO_QUEUE:
        before = dequeue(queues, x)
        note_head(w, queues, before)
    at_end = position >= request[LENGTH] - 2
    w.classes[x] = k + 1
    w.ends[x] = RUNS * w.state[REQUEST_TURN] + w.state[REQUEST_RUN] if at_end else 0
    w.spatial[x] = w.state[REQUEST_SPATIAL]
    w.state[TOUCHES] += 1
    enqueue(queues, x, k, now)
    note_head(w, queues, k)
