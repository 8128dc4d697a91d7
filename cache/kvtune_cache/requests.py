"""Serve requests from a block table: what is hit, what is touched in which order, what leaves.

A request hits its longest prefix that is wholly resident. Its own blocks are pinned while it is served; then
all of them are touched or taken in, tail first as vLLM frees them (so that tails leave before heads) or head
first. Of a request that is longer than the capacity only the head that fits is kept.
"""

from typing import NamedTuple

from kvtune_cache.blocks import (
    CURSOR,
    GONE,
    NO_BLOCK,
    RESIDENT,
    Bytes,
    Integers,
    Longs,
    next_request,
    pin,
    prefix,
)
from kvtune_cache.cache import KIND, LENGTH, NOW, OUTPUT_TOKENS, POSITION, START, Cache, Floats
from kvtune_cache.eviction.policy import begin, hit, miss


class Rules(NamedTuple):
    """How requests are served, as whole numbers alone."""

    policy: int
    """The number of `Eviction`."""

    capacity: int
    """Blocks, at least 1."""

    tail_first: int = 1
    pins: int = 1


class Requests(NamedTuple):
    """Requests over dense block numbers: request r has the blocks [starts[r], starts[r + 1]), each once."""

    starts: Longs
    blocks: Integers
    tokens: Integers
    """Tokens of each block of `blocks`, the last of a request possibly fewer than the others."""

    times: Floats
    """Arrival of each request, seconds, never going back."""

    outputs: Integers
    """Tokens of each answer; -1 where it is not known."""

    kinds: Bytes
    """Request type or stop reason of each request, 0 (not known) to 5."""


class Sums(NamedTuple):
    """What a range of requests came to."""

    blocks: int
    hit_blocks: int
    tokens: int
    hit_tokens: int


def serve(cache: Cache, rules: Rules, requests: Requests, r: int) -> int:
    """Serve request r; how many of its blocks were hit. What has left stands in `cache.table.gone`."""
    table, blocks, request = cache.table, requests.blocks, cache.request
    start, stop = requests.starts[r], requests.starts[r + 1]
    next_request(table)
    found = prefix(table, blocks, start, stop)
    request[NOW] = requests.times[r]
    request[OUTPUT_TOKENS] = requests.outputs[r]
    request[KIND] = requests.kinds[r]
    request[START] = start
    request[LENGTH] = stop - start
    begin(rules.policy, cache, blocks, start, stop)
    stop = min(stop, start + rules.capacity)
    if rules.pins == 1:
        pin(table, blocks, start, stop)
    for i in range(start, stop):
        at = start + stop - 1 - i if rules.tail_first == 1 else i
        x = blocks[at]
        request[POSITION] = at - start
        if table.where[x] > RESIDENT:
            hit(rules.policy, cache, x)
        else:
            miss(rules.policy, cache, x, rules.capacity)
    return found


def serve_all(cache: Cache, rules: Rules, requests: Requests, found: Integers) -> int:
    """Serve all requests in their order; how many blocks have left.

    `found` has room for a number of each request: how many of its blocks were hit.
    """
    left = 0
    for r in range(len(requests.starts) - 1):
        found[r] = serve(cache, rules, requests, r)
        left += cache.table.state[GONE]
    return left


def serve_stream(cache: Cache, rules: Rules, blocks: Integers) -> int:
    """Serve a request of one block for each of `blocks`; how many were hit.

    As `serve_all` of such requests, for policies that learn nothing of requests, but without the work that a
    request of many blocks needs.
    """
    table, policy, capacity = cache.table, rules.policy, rules.capacity
    state, where = table.state, table.where
    next_request(table)
    hits = 0
    for i in range(len(blocks)):
        x = blocks[i]
        if where[x] > RESIDENT:
            hits += 1
            hit(policy, cache, x)
        else:
            state[GONE] = 0
            state[CURSOR] = NO_BLOCK
            miss(policy, cache, x, capacity)
    return hits


def sums(requests: Requests, found: Integers, first: int) -> Sums:
    """Add up the requests from number `first` on, of which `found` blocks were hit."""
    blocks = hit_blocks = tokens = hit_tokens = 0
    for r in range(first, len(requests.starts) - 1):
        start, stop = requests.starts[r], requests.starts[r + 1]
        blocks += stop - start
        hit_blocks += found[r]
        for i in range(start, stop):
            tokens += requests.tokens[i]
            if i < start + found[r]:
                hit_tokens += requests.tokens[i]
    return Sums(blocks, hit_blocks, tokens, hit_tokens)
