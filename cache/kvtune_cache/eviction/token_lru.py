"""TokenLRU: blocks whose tokens get diffuse attention leave earlier, blocks of entities later.

After systems.md, section 3: the score of a token is 1 / (now - last access + 1) * max(.1, 1 - H) *
(1 + .3 structural), with its attention entropy H from 0 to 1; that of a block is the mean over its tokens,
and the lowest leaves first. All tokens of a block are accessed together, so that a score is the block's
*weight* (the mean of the two factors, rounded to LEVELS) over its age + 1. Of blocks of one weight the oldest
has the lowest score: each weight has a queue in order of last access, and only the heads are compared.

Entropy comes from the engine, by `tell_weight`. Until it does, every block has the same weight and this is
LRU; `has_entropy` says so.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kvtune_cache.blocks import (
    NO_BLOCK,
    RECENT,
    SIZES,
    BlockTable,
    Integers,
    leave,
    link,
    unlink,
)
from kvtune_cache.eviction.queues import (
    NO_QUEUE,
    QUEUES,
    Queues,
    dequeue,
    enqueue,
    enqueue_by_age,
    head,
    is_empty,
    is_new_request,
    reopen,
)
from kvtune_cache.signals import NOW, Floats

LEAST_FOCUS: Final = 0.1
STRUCTURAL_FACTOR: Final = 0.3
LOWEST_WEIGHT: Final = LEAST_FOCUS
HIGHEST_WEIGHT: Final = 1.0 + STRUCTURAL_FACTOR

LEVELS: Final = 61
LEVEL_WEIGHT: Final = (HIGHEST_WEIGHT - LOWEST_WEIGHT) / (LEVELS - 1)
"""Weights are rounded to steps of .02."""

UNKNOWN_LEVEL: Final = 45
"""Weight 1: full focus and no structure known, what LRU gives to every token."""

TOLD: Final = 0
IN_USE: Final = 1
TOKEN_STEPS: Final = 2
TOKEN_FIELDS: Final = 3
"""Slots of `state`: how many weights were told; how many levels are in use; heads compared so far."""


class Tokens(NamedTuple):
    """State of TokenLRU beside the queues: lists or arrays, as `plain_tokens` makes them."""

    levels: Integers
    """n levels + 1; 0: not told."""

    used: Integers
    """QUEUES levels: the first `state[IN_USE]` have had blocks."""

    state: Integers
    """TOKEN_FIELDS numbers."""


def plain_tokens(blocks: int) -> Tokens:
    """Make the state of TokenLRU of lists, with no entropy told."""
    return Tokens(levels=[0] * blocks, used=[0] * QUEUES, state=[0] * TOKEN_FIELDS)


def weight(entropies: Sequence[float], structural: Sequence[bool] = ()) -> float:
    """Give a block's weight from its tokens' attention entropies, each divided by its maximum.

    `structural` marks tokens of noun phrases and entities; empty where that is not known. Raises ValueError
    for a block without tokens, an entropy outside 0 to 1 (NaN too) or marks of another number.
    """
    if not entropies:
        raise ValueError("entropies: a block has at least one token")
    if structural and len(structural) != len(entropies):
        raise ValueError(f"structural: {len(structural)} marks for {len(entropies)} tokens")
    for entropy in entropies:
        if not 0.0 <= entropy <= 1.0:
            raise ValueError(f"entropies: {entropy} is not from 0 to 1")
    marks = structural or [False] * len(entropies)
    each = zip(entropies, marks, strict=True)
    total = sum(max(LEAST_FOCUS, 1.0 - h) * (1.0 + STRUCTURAL_FACTOR * mark) for h, mark in each)
    return total / len(entropies)


def tell_weight(tokens: Tokens, queues: Queues, x: int, block_weight: float) -> None:
    """Take over the weight of block x (LOWEST_WEIGHT to HIGHEST_WEIGHT), resident or not, from now on.

    Takes a step for each block of the new level that was accessed later than x, few where an engine tells
    weights right after the access.
    """
    level = int((block_weight - LOWEST_WEIGHT) / LEVEL_WEIGHT + 0.5)
    tokens.state[TOLD] += 1
    tokens.levels[x] = max(0, min(LEVELS - 1, level)) + 1
    if queues.queue[x] != NO_QUEUE:
        dequeue(queues, x)
        _use(tokens, queues, tokens.levels[x] - 1)
        enqueue_by_age(queues, x, tokens.levels[x] - 1)


def has_entropy(tokens: Tokens) -> bool:
    """Say whether any entropy was ever told; until then TokenLRU is LRU."""
    return tokens.state[TOLD] > 0


def token_lru_hit(tokens: Tokens, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Make x the newest of its level."""
    dequeue(queues, x)
    unlink(table, x)
    _link(tokens, queues, table, request, x)


def token_lru_miss(
    tokens: Tokens, queues: Queues, table: BlockTable, request: Floats, x: int, capacity: int
) -> None:
    """Take x in as the newest of its level; leave it out where every resident block is pinned."""
    full = table.state[SIZES + RECENT] >= capacity
    if full and token_lru_evict(tokens, queues, table, request) == NO_BLOCK:
        return
    _link(tokens, queues, table, request, x)


def token_lru_evict(tokens: Tokens, queues: Queues, table: BlockTable, request: Floats) -> int:
    """Let the head with the lowest score go, the oldest of equals; NO_BLOCK when all blocks are pinned."""
    if is_new_request(queues, table):
        reopen(queues, table)
    victim, lowest = NO_BLOCK, 0.0
    for i in range(tokens.state[IN_USE] - 1, -1, -1):
        k = tokens.used[i]
        if is_empty(queues, k):
            tokens.state[IN_USE] -= 1
            tokens.used[i] = tokens.used[tokens.state[IN_USE]]
            continue
        tokens.state[TOKEN_STEPS] += 1
        x = head(queues, table, k)
        if x == NO_BLOCK:
            continue
        score = level_score(k, request[NOW] - queues.last[x])
        older = victim != NO_BLOCK and score == lowest and queues.last[x] < queues.last[victim]
        if victim == NO_BLOCK or score < lowest or older:
            victim, lowest = x, score
    if victim != NO_BLOCK:
        dequeue(queues, victim)
        leave(table, victim)
    return victim


def token_lru_drop(queues: Queues, table: BlockTable, x: int) -> None:
    """Take a resident block out for another reason than pressure."""
    dequeue(queues, x)
    leave(table, x)


def token_lru_adopt(tokens: Tokens, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Take over a block that was resident under another policy, as the newest of its level."""
    _link(tokens, queues, table, request, x)


def token_lru_forget(tokens: Tokens, x: int) -> None:
    """Let the number x stand for a block of which no weight was told."""
    tokens.levels[x] = 0


def level_score(level: int, age: float) -> float:
    """Score a block of a level that has been idle for `age` seconds."""
    return (LOWEST_WEIGHT + level * LEVEL_WEIGHT) / (age + 1.0)


def _level(tokens: Tokens, x: int) -> int:
    """Give the level of block x."""
    return tokens.levels[x] - 1 if tokens.levels[x] > 0 else UNKNOWN_LEVEL


def _link(tokens: Tokens, queues: Queues, table: BlockTable, request: Floats, x: int) -> None:
    """Make x the newest of its level and of the table."""
    level = _level(tokens, x)
    _use(tokens, queues, level)
    enqueue(queues, x, level, request[NOW])
    link(table, x, RECENT)


def _use(tokens: Tokens, queues: Queues, level: int) -> None:
    """Note a level that is about to have its first block."""
    if not is_empty(queues, level):
        return
    for i in range(tokens.state[IN_USE]):
        if tokens.used[i] == level:
            return
    tokens.used[tokens.state[IN_USE]] = level
    tokens.state[IN_USE] += 1
