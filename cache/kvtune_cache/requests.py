"""Serve requests from a block table: what is hit, what is touched in which order, what leaves.

A request hits its longest prefix that is wholly resident. Its own blocks are pinned while it is served; then
all of them are touched or taken in, tail first as vLLM frees them (so that tails leave before heads) or head
first. Of a request that is longer than the capacity only the head that fits is kept.
"""

from typing import NamedTuple

from kvtune_cache.blocks import GONE, RESIDENT, BlockTable, Integers, begin, pin, prefix
from kvtune_cache.eviction.policy import hit, miss


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

    starts: Integers
    blocks: Integers
    tokens: Integers
    """Tokens of each block of `blocks`, the last of a request possibly fewer than the others."""


class Sums(NamedTuple):
    """What a range of requests came to."""

    blocks: int
    hit_blocks: int
    tokens: int
    hit_tokens: int


def serve(table: BlockTable, rules: Rules, blocks: Integers, start: int, stop: int) -> int:
    """Serve the request of these blocks; how many were hit. What has left stands in `table.gone`."""
    begin(table)
    found = prefix(table, blocks, start, stop)
    stop = min(stop, start + rules.capacity)
    if rules.pins == 1:
        pin(table, blocks, start, stop)
    for i in range(start, stop):
        x = blocks[start + stop - 1 - i] if rules.tail_first == 1 else blocks[i]
        if table.where[x] > RESIDENT:
            hit(rules.policy, table, x)
        else:
            miss(rules.policy, table, x, rules.capacity)
    return found


def serve_all(table: BlockTable, rules: Rules, requests: Requests, found: Integers) -> int:
    """Serve all requests in their order; how many blocks have left.

    `found` has room for a number of each request: how many of its blocks were hit.
    """
    left = 0
    for r in range(len(requests.starts) - 1):
        found[r] = serve(table, rules, requests.blocks, requests.starts[r], requests.starts[r + 1])
        left += table.state[GONE]
    return left


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
