"""Simulate one cache of a given size on a trace: what a policy would have hit, beside what anybody could.

Called by `kvtune simulate`. Runs the policies of kvtune_cache as they are, on lists; the semantics are those
of kvtune_cache.requests.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.optimal import Foreseen, foresee, serve_optimally
from kvtune_cache.requests import Requests, Rules, Sums, serve_all, sums
from kvtune_lab.setups import Order, Policy
from kvtune_lab.traffic import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What came of it. Rates are shares from 0 to 1; the last half is that of the requests."""

    policy: Policy
    order: Order
    capacity_blocks: int
    requests: int
    block_references: int
    distinct_blocks: int
    token_hit_rate: float
    block_hit_rate: float
    token_hit_rate_last_half: float
    block_hit_rate_last_half: float
    evictions: int | None
    """Blocks that have left; None for OPT, which need not take a block in at all."""


def packed(requests: Iterable[Request], *, block_tokens: int) -> Requests:
    """Number the blocks of all requests as they come; the last of each holds the tokens that are left."""
    numbers: dict[int, int] = {}
    starts, blocks, tokens = array("q", [0]), array("i"), array("i")
    times, outputs, kinds = array("d"), array("i"), array("b")
    for request in requests:
        blocks.extend(numbers.setdefault(block, len(numbers)) for block in request.blocks)
        full = len(request.blocks) - 1
        tokens.extend([block_tokens] * full)
        tokens.append(request.prompt_tokens - block_tokens * full)
        starts.append(len(blocks))
        times.append(request.arrival_s)
        outputs.append(request.output_tokens)
        kinds.append(0)
    return Requests(starts, blocks, tokens, times, outputs, kinds)


def simulate(
    requests: Requests, policy: Policy, capacity_blocks: int, *, order: Order = Order.TAIL
) -> Simulation:
    """Serve all requests from an empty cache; raises ValueError for a capacity of less than one block."""
    if capacity_blocks < 1:
        raise ValueError(f"capacity: {capacity_blocks} is less than 1 block")
    count, distinct = len(requests.starts) - 1, max(requests.blocks) + 1
    found = array("i", bytes(4 * count))
    evictions = None
    if policy is Policy.OPT:
        _optimal(requests, distinct, capacity_blocks, found)
    else:
        tail = int(order is Order.TAIL)
        rules = Rules(Eviction[policy.value], capacity_blocks, tail_first=tail, pins=tail)
        evictions = serve_all(plain_cache(distinct), rules, requests, found)
    whole, half = sums(requests, found, 0), sums(requests, found, count // 2)
    return Simulation(
        policy=policy,
        order=order,
        capacity_blocks=capacity_blocks,
        requests=count,
        block_references=len(requests.blocks),
        distinct_blocks=distinct,
        token_hit_rate=_tokens(whole),
        block_hit_rate=_blocks(whole),
        token_hit_rate_last_half=_tokens(half),
        block_hit_rate_last_half=_blocks(half),
        evictions=evictions,
    )


def _optimal(requests: Requests, distinct: int, capacity: int, found: "array[int]") -> None:
    room = Foreseen(array("i", bytes(4 * len(requests.blocks))), [0] * distinct, [0] * distinct)
    foresee(requests, room)
    serve_optimally(requests, room, capacity, found)


def _tokens(total: Sums) -> float:
    return total.hit_tokens / total.tokens


def _blocks(total: Sums) -> float:
    return total.hit_blocks / total.blocks
