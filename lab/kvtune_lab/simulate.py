"""Simulate setups of one cache on a trace: what a policy would have hit, beside what anybody could.

Called by `kvtune simulate`, sweeps and studies. Runs the policies of kvtune_cache as they are: on lists, or
compiled on arrays where much is to be served; both give the same. The semantics are those of
kvtune_cache.requests.
"""

from array import array
from collections.abc import Iterable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from kvtune_cache.blocks import Integers
from kvtune_cache.cache import Cache
from kvtune_cache.counts import LEFT, PASSES, PRESSURE, TTL, WANTED, WRITTEN
from kvtune_cache.lru_run import is_lru_run, serve_all_by_lru
from kvtune_cache.optimal import Foreseen, foresee, plain_foreseen, serve_optimally
from kvtune_cache.requests import Requests, Sums, cache_for, serve_all
from kvtune_cache.rules import Rules
from kvtune_lab.readers.loaded import as_lists, as_requests
from kvtune_lab.setups import Order, Policy, Setup
from kvtune_lab.simulation import Evictions, Simulation
from kvtune_lab.traffic import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T", bound=tuple[Any, ...])

PLAIN_REFERENCES = 2_000_000
"""Up to so many block references to serve the policies run plain: LRU takes some 5 s for them, as long as it
takes to compile it for the first time (docs/lab.md)."""


class Way(Enum):
    """How the policies run."""

    PLAIN = "plain"
    COMPILED = "compiled"


def way_for(block_references: int) -> Way:
    """Choose by how many references are to be served in all."""
    return Way.PLAIN if block_references <= PLAIN_REFERENCES else Way.COMPILED


def packed(requests: Iterable[Request], *, block_tokens: int) -> Requests:
    """Number the blocks of all requests as they come; the last of each holds the tokens that are left."""
    numbers: dict[int, int] = {}
    starts, blocks, tokens = array("q", [0]), array("i"), array("i")
    times, outputs, hints = array("d"), array("i"), array("d")
    for request in requests:
        blocks.extend(numbers.setdefault(block, len(numbers)) for block in request.blocks)
        full = len(request.blocks) - 1
        tokens.extend([block_tokens] * full)
        tokens.append(request.prompt_tokens - block_tokens * full)
        starts.append(len(blocks))
        times.append(request.arrival_s)
        outputs.append(request.output_tokens)
        hints.append(request.hint.returns_in_seconds if request.hint is not None else 0.0)
    return as_requests(starts, blocks, tokens, times, outputs, np.zeros(len(times)), hints)


class Simulator:
    """Simulates any setup on one trace; several threads may use one at once."""

    def __init__(self, requests: Requests, way: Way | None = None) -> None:
        """Take the requests; without a way it is that for a single setup."""
        self.references = len(requests.blocks)
        self.requests = len(requests.starts) - 1
        self.distinct_blocks = int(np.max(requests.blocks)) + 1
        self.way = way or way_for(self.references)
        self._starts = np.asarray(requests.starts, np.int64)
        self._tokens_before = np.zeros(self.references + 1, np.int64)
        np.cumsum(requests.tokens, out=self._tokens_before[1:])
        self._core: _Plain | _Compiled
        if self.way is Way.PLAIN:
            self._core = _Plain(requests, self.distinct_blocks)
        else:
            self._core = _Compiled(requests, self.distinct_blocks)

    def simulate(self, setup: Setup) -> Simulation:
        """Serve all requests from an empty cache."""
        evictions = None
        if setup.policy is Policy.OPT:
            hit = self._core.optimally(setup.capacity_blocks)
        else:
            hit, evictions = self._core.by(_rules(setup))
        found = np.asarray(hit, np.int64)
        whole, half = self._sums(found, 0), self._sums(found, self.requests // 2)
        return Simulation(
            setup=setup,
            requests=self.requests,
            block_references=self.references,
            distinct_blocks=self.distinct_blocks,
            prompt_tokens=whole.tokens,
            hit_tokens=whole.hit_tokens,
            token_hit_rate=whole.hit_tokens / whole.tokens,
            block_hit_rate=whole.hit_blocks / whole.blocks,
            token_hit_rate_last_half=half.hit_tokens / half.tokens,
            block_hit_rate_last_half=half.hit_blocks / half.blocks,
            evictions=evictions,
        )

    def _sums(self, found: "NDArray[np.int64]", first: int) -> Sums:
        """Add up the requests from number `first` on, as `kvtune_cache.requests.sums` does."""
        starts, before = self._starts, self._tokens_before
        heads = starts[first:-1]
        hit_tokens = before[heads + found[first:]] - before[heads]
        return Sums(
            blocks=int(starts[-1] - starts[first]),
            hit_blocks=int(found[first:].sum()),
            tokens=int(before[starts[-1]] - before[starts[first]]),
            hit_tokens=int(hit_tokens.sum()),
        )


def _rules(setup: Setup) -> Rules:
    tail = int(setup.order is Order.TAIL)
    return Rules(
        setup.policy.number,
        setup.capacity_blocks,
        tail_first=tail,
        pins=tail,
        ttl_seconds=inf if setup.ttl_seconds is None else setup.ttl_seconds,
        pass_blocks=setup.pass_blocks,
        store_threshold=setup.store_threshold,
    )


class _Plain:
    """Runs the sources as they are, on lists."""

    def __init__(self, requests: Requests, distinct_blocks: int) -> None:
        self._requests = as_lists(requests)
        self._distinct_blocks = distinct_blocks

    def by(self, rules: Rules) -> tuple[Integers, Evictions]:
        cache, found = cache_for(rules, self._distinct_blocks), self._no_hits()
        serve = serve_all_by_lru if is_lru_run(rules) else serve_all
        serve(cache, rules, self._requests, found)
        return found, _evictions(cache)

    def optimally(self, capacity: int) -> Integers:
        foreseen, found = plain_foreseen(self._requests, self._distinct_blocks), self._no_hits()
        foresee(self._requests, foreseen)
        serve_optimally(self._requests, foreseen, capacity, found)
        return found

    def _no_hits(self) -> list[int]:
        return [0] * (len(self._requests.starts) - 1)


class _Compiled:
    """Runs the same sources compiled, on arrays; imports numba."""

    def __init__(self, requests: Requests, distinct_blocks: int) -> None:
        from kvtune_lab.compiled import as_arrays, compiled

        self._compiled = compiled
        self._requests = as_requests(*requests)
        self._as_arrays = as_arrays
        self._distinct_blocks = distinct_blocks
        self._empty: dict[tuple[int, bool, bool], Cache] = {}
        self._no_hits = np.zeros(len(requests.starts) - 1, np.int32)

    def by(self, rules: Rules) -> tuple[Integers, Evictions]:
        cache, found = self._cache(rules), cast(Integers, self._no_hits.copy())
        self._compiled(serve_all, policy=rules.policy)(cache, rules, self._requests, found)
        return found, _evictions(cache)

    def optimally(self, capacity: int) -> Integers:
        found, distinct = cast(Integers, self._no_hits.copy()), self._distinct_blocks
        lengths = len(self._requests.blocks), distinct, distinct, distinct, len(found)
        foreseen = Foreseen(*(cast(Integers, np.zeros(length, np.int32)) for length in lengths))
        self._compiled(foresee)(self._requests, foreseen)
        serve = self._compiled(serve_optimally, allocates=True)
        serve(self._requests, foreseen, capacity, found)
        return found

    def _cache(self, rules: Rules) -> Cache:
        """An empty cache: making it of lists takes longer than copying its arrays."""
        kind = (rules.policy, rules.ttl_seconds < inf, rules.store_threshold > 1)
        if kind not in self._empty:
            self._empty[kind] = self._as_arrays(cache_for(rules, self._distinct_blocks))
        return _copied(self._empty[kind])


def _evictions(cache: Cache) -> Evictions:
    counts = cache.counts
    return Evictions(
        pressure=int(counts[LEFT + PRESSURE]),
        ttl=int(counts[LEFT + TTL]),
        passes=int(counts[PASSES]),
        wanted_again=int(counts[WANTED + PRESSURE] + counts[WANTED + TTL]),
        blocks_written=int(counts[WRITTEN]),
    )


def _copied(parts: T) -> T:
    """Copy a named tuple of arrays, tuples in it included."""
    return type(parts)(*(_copied(part) if isinstance(part, tuple) else part.copy() for part in parts))
