"""Serve requests from a block table: what is hit, what is touched in which order, what leaves.

A request hits its longest prefix that is wholly resident. Its own blocks are pinned while it is served; then
all of them are touched or taken in, tail first as vLLM frees them (so that tails leave before heads) or head
first. Of a request that is longer than the capacity only the head that fits is kept.
"""

from math import inf
from typing import Final, NamedTuple

from kvtune_cache.blocks import (
    CURSOR,
    GONE,
    NO_BLOCK,
    RESIDENT,
    Bytes,
    Integers,
    Links,
    Longs,
    next_request,
    prefix,
)
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.counts import LEFT, PRESSURE, RESIZE, TTL
from kvtune_cache.eviction.policy import begin, hit, miss
from kvtune_cache.keeping import open_request, touch
from kvtune_cache.rules import Rules
from kvtune_cache.signals import HINT, KIND, LENGTH, OUTPUT_TOKENS, START, Floats


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

    hints: Floats
    """What the client of each request expects of its session, as `signals.HINT` has it; 0: not known."""


ANY_KIND: Final = -1


class Sums(NamedTuple):
    """What a range of requests came to."""

    blocks: int
    hit_blocks: int
    tokens: int
    hit_tokens: int
    requests: int = 0


def cache_for(rules: Rules, blocks: int) -> Cache:
    """Make an empty cache of lists with what these rules need; ValueError for less than one block."""
    return plain_cache(blocks, rules.policy, recency=rules.ttl_seconds < inf, asked=rules.store_threshold > 1)


def serve(cache: Cache, rules: Rules, requests: Requests, r: int) -> int:
    """Serve request r; how many of its blocks were hit. What has left stands in `cache.table.gone`."""
    blocks, request = requests.blocks, cache.request
    start, stop = requests.starts[r], requests.starts[r + 1]
    open_request(cache, rules, requests.times[r])
    found = prefix(cache.table, blocks, start, stop)
    request[OUTPUT_TOKENS] = requests.outputs[r]
    request[KIND] = requests.kinds[r]
    request[HINT] = requests.hints[r]
    request[START] = start
    request[LENGTH] = stop - start
    begin(rules.policy, cache, blocks, start, stop)
    touch(cache, rules, blocks, start, stop, found)
    return found


def serve_all(cache: Cache, rules: Rules, requests: Requests, found: Integers) -> int:
    """Serve all requests in their order; how many blocks have left. `cache.counts` says why.

    `found` has room for a number of each request: how many of its blocks were hit.
    """
    before = left(cache.counts)
    for r in range(len(requests.starts) - 1):
        found[r] = serve(cache, rules, requests, r)
    return left(cache.counts) - before


def left(counts: Longs) -> int:
    """Count the blocks that have left, for whatever reason."""
    return counts[LEFT + PRESSURE] + counts[LEFT + TTL] + counts[LEFT + RESIZE]


def serve_stream(cache: Cache, rules: Rules, blocks: Links) -> int:
    """Serve a request of one block for each of `blocks`; how many were hit.

    As `serve_all` of such requests, for policies that learn nothing of requests and rules with neither TTL,
    passes nor threshold, but without counts and the work that a request of many blocks needs.
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
    return _sums(requests, found, first, ANY_KIND)


def sums_of_kind(requests: Requests, found: Integers, first: int, kind: int) -> Sums:
    """Add up the requests of one kind from number `first` on."""
    return _sums(requests, found, first, kind)


def _sums(requests: Requests, found: Integers, first: int, kind: int) -> Sums:
    count = blocks = hit_blocks = tokens = hit_tokens = 0
    for r in range(first, len(requests.starts) - 1):
        if kind != ANY_KIND and requests.kinds[r] != kind:
            continue
        start, stop = requests.starts[r], requests.starts[r + 1]
        count += 1
        blocks += stop - start
        hit_blocks += found[r]
        for i in range(start, stop):
            tokens += requests.tokens[i]
            if i < start + found[r]:
                hit_tokens += requests.tokens[i]
    return Sums(blocks, hit_blocks, tokens, hit_tokens, count)
