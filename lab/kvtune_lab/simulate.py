"""Simulate setups of one cache on a trace: what a policy would have hit, beside what anybody could.

Called by `kvtune simulate`, sweeps and studies. Runs the policies of kvtune_cache as they are: on lists, or
compiled on arrays where much is to be served; both give the same. The semantics are those of
kvtune_cache.requests.
"""

from array import array
from enum import Enum
from itertools import accumulate
from math import inf
from typing import Any, Protocol, TypeVar, cast

from kvtune_cache.blocks import Integers
from kvtune_cache.cache import Cache
from kvtune_cache.counts import LEFT, PASSES, PRESSURE, TTL, WANTED, WRITTEN
from kvtune_cache.eviction.names import WORKLOAD_AWARE
from kvtune_cache.eviction.workload_rules import WorkloadRules
from kvtune_cache.eviction.workload_state import plain_workload
from kvtune_cache.lru_run import is_lru_run, serve_all_by_lru
from kvtune_cache.optimal import Foreseen, foresee, plain_foreseen, serve_optimally
from kvtune_cache.requests import Requests, Sums, cache_for, serve_all
from kvtune_cache.rules import Rules
from kvtune_lab.readers.loaded import as_lists, as_requests
from kvtune_lab.setups import Order, Policy, Setup
from kvtune_lab.simulation import Evictions, Simulation

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


class Simulator:
    """Simulates any setup on one trace; several threads may use one at once."""

    def __init__(
        self, requests: Requests, way: Way | None = None, *, workload: WorkloadRules | None = None
    ) -> None:
        """Take the requests; without a way it is that for a single setup. `workload`: of WorkloadAware."""
        self.references = len(requests.blocks)
        self.requests = len(requests.starts) - 1
        self.way = way or way_for(self.references)
        self._core: _Core = (_Plain if self.way is Way.PLAIN else _Compiled)(requests, workload)

    def compiles(self, policy: Policy) -> bool:
        """Whether the next simulation of a policy compiles it first, once for all later processes."""
        return self._core.compiles(policy)

    def simulate(self, setup: Setup) -> Simulation:
        """Serve all requests from an empty cache; raises ValueError where the last half has no token."""
        evictions = None
        if setup.policy is Policy.OPT:
            hit = self._core.optimally(setup.capacity_blocks)
        else:
            hit, evictions = self._core.by(_rules(setup))
        whole, half = self._core.sums(hit, 0), self._core.sums(hit, self.requests // 2)
        if half.tokens == 0:
            raise ValueError("trace: its last half holds no token")
        return Simulation(
            setup=setup,
            requests=self.requests,
            block_references=self.references,
            distinct_blocks=self._core.distinct_blocks,
            prompt_tokens=whole.tokens,
            hit_tokens=whole.hit_tokens,
            token_hit_rate=whole.hit_tokens / whole.tokens,
            block_hit_rate=whole.hit_blocks / whole.blocks,
            token_hit_rate_last_half=half.hit_tokens / half.tokens,
            block_hit_rate_last_half=half.hit_blocks / half.blocks,
            evictions=evictions,
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


class _Core(Protocol):
    """Runs the policies over one trace, one way or the other."""

    distinct_blocks: int

    def compiles(self, policy: Policy) -> bool:
        """Whether the next run of a policy compiles it."""

    def by(self, rules: Rules) -> tuple[Integers, Evictions]:
        """Hit blocks of each request, and what has left."""

    def optimally(self, capacity: int) -> Integers:
        """Hit blocks of each request, with all requests known."""

    def sums(self, found: Integers, first: int) -> Sums:
        """Add up the requests from number `first` on, as `kvtune_cache.requests.sums` does."""


class _Plain:
    """Runs the sources as they are, on lists, without numpy: it takes longer to import than a small trace."""

    def __init__(self, requests: Requests, workload: WorkloadRules | None) -> None:
        self._workload = workload
        self._requests = as_lists(requests._replace(tokens=[]))
        self.distinct_blocks = max(self._requests.blocks) + 1
        self._tokens_before = array("q", accumulate(requests.tokens, initial=0))

    def compiles(self, policy: Policy) -> bool:
        return False

    def by(self, rules: Rules) -> tuple[Integers, Evictions]:
        cache, found = _cache(rules, self.distinct_blocks, self._workload), self._no_hits()
        serve = serve_all_by_lru if is_lru_run(rules) else serve_all
        serve(cache, rules, self._requests, found)
        return found, _evictions(cache)

    def optimally(self, capacity: int) -> Integers:
        foreseen, found = plain_foreseen(self._requests, self.distinct_blocks), self._no_hits()
        foresee(self._requests, foreseen)
        serve_optimally(self._requests, foreseen, capacity, found)
        return found

    def sums(self, found: Integers, first: int) -> Sums:
        starts, before = self._requests.starts, self._tokens_before
        hits = zip(starts[first:-1], found[first:], strict=True)
        return Sums(
            blocks=starts[-1] - starts[first],
            hit_blocks=sum(found[first:]),
            tokens=before[-1] - before[starts[first]],
            hit_tokens=sum(before[start + hit] - before[start] for start, hit in hits),
        )

    def _no_hits(self) -> list[int]:
        return [0] * (len(self._requests.starts) - 1)


class _Compiled:
    """Runs the same sources compiled, on arrays; imports numba."""

    def __init__(self, requests: Requests, workload: WorkloadRules | None) -> None:
        import numpy as np

        from kvtune_lab.compiled import as_arrays, compiled

        self._workload = workload
        self._compiled = compiled
        self._requests = as_requests(*requests)
        self._as_arrays = as_arrays
        self.distinct_blocks = int(np.max(self._requests.blocks)) + 1
        # 32 bits that may overflow: what counts is differences within a request, and those stay right.
        self._tokens_before = np.zeros(len(self._requests.blocks) + 1, np.uint32)
        np.cumsum(self._requests.tokens, dtype=np.uint32, out=self._tokens_before[1:])
        self._empty: dict[tuple[int, bool, bool], Cache] = {}
        self._no_hits = np.zeros(len(requests.starts) - 1, np.int32)

    def compiles(self, policy: Policy) -> bool:
        from kvtune_lab.compiled import is_kept

        if policy is Policy.OPT:
            return not is_kept(serve_optimally, allocates=True)
        return not is_kept(serve_all, policy=policy.number)

    def by(self, rules: Rules) -> tuple[Integers, Evictions]:
        cache, found = self._cache(rules), cast(Integers, self._no_hits.copy())
        self._compiled(serve_all, policy=rules.policy)(cache, rules, self._requests, found)
        return found, _evictions(cache)

    def optimally(self, capacity: int) -> Integers:
        import numpy as np

        found, distinct = cast(Integers, self._no_hits.copy()), self.distinct_blocks
        lengths = len(self._requests.blocks), distinct, distinct, distinct, len(found)
        foreseen = Foreseen(*(cast(Integers, np.zeros(length, np.int32)) for length in lengths))
        self._compiled(foresee)(self._requests, foreseen)
        serve = self._compiled(serve_optimally, allocates=True)
        serve(self._requests, foreseen, capacity, found)
        return found

    def sums(self, found: Integers, first: int) -> Sums:
        import numpy as np

        starts, before = np.asarray(self._requests.starts), self._tokens_before
        heads, hits = starts[first:-1], np.asarray(found)[first:]
        return Sums(
            blocks=int(starts[-1] - starts[first]),
            hit_blocks=int(hits.sum(dtype=np.int64)),
            tokens=int((before[starts[first + 1 :]] - before[heads]).sum(dtype=np.int64)),
            hit_tokens=int((before[heads + hits] - before[heads]).sum(dtype=np.int64)),
        )

    def _cache(self, rules: Rules) -> Cache:
        """An empty cache: making it of lists takes longer than copying its arrays."""
        kind = (rules.policy, rules.ttl_seconds < inf, rules.store_threshold > 1)
        if kind not in self._empty:
            self._empty[kind] = self._as_arrays(_cache(rules, self.distinct_blocks, self._workload))
        return _copied(self._empty[kind])


def _cache(rules: Rules, blocks: int, workload: WorkloadRules | None) -> Cache:
    """An empty cache of lists, with WorkloadAware's own rules where they are given."""
    cache = cache_for(rules, blocks)
    if workload is None or rules.policy != WORKLOAD_AWARE:
        return cache
    return cache._replace(workload=plain_workload(blocks, workload))


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
