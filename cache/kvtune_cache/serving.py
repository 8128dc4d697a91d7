"""A replay engine without tokens: requests with block ids in, hits and times to first token out.

Called by the agent's replay engine and by the lab's grid. Pure and deterministic: the same requests and
settings give the same counters on every machine.

Exact: the tiers (tiers.py), token counts (the last block of a prompt may be partial), one first-in
first-out server. TTFT = wait for the server + base + load of host hits + prefill of the tokens not hit (at
least one, as in an engine) + stalls of the eviction passes that the request's own inserts start. Tiers see
requests at their arrival, so hits do not depend on the queue. Write-through writes every block new to the
host tier down, as a whole block.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, NoReturn

from kvtune_cache.constants import EngineConstants
from kvtune_cache.counts import LEFT, PASSES, PRESSURE, REFUSED, RESIZE, TTL, WANTED, WRITTEN
from kvtune_cache.eviction.names import REUSE_AWARE
from kvtune_cache.reuse import ReuseAges
from kvtune_cache.reuse_aware.persistence import learned
from kvtune_cache.stack import Processed
from kvtune_cache.tiers import CacheSettings, TieredCache

# Upper bounds of vLLM's vllm:time_to_first_token_seconds, seconds; +Inf comes after them.
TTFT_BOUNDS_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip

ROOT_MEMORY_SECONDS = 3600.0

KINDS = 6
"""Request types or stop reasons that are told apart; 0: not known."""


class BadRequest(ValueError):
    """A request that no engine can serve; it is found before anything is changed."""


class Served(NamedTuple):
    """What one request got (a tuple, because one is made for every request)."""

    ttft_seconds: float
    queue_seconds: float
    device_hit_tokens: int
    host_hit_tokens: int
    eviction_passes: int


@dataclass(slots=True, kw_only=True)
class Totals:
    """Counters since the start; they only grow. `errors` is the caller's: refused requests never get here."""

    requests: int = 0
    prompt_tokens: int = 0
    device_hit_tokens: int = 0
    host_hit_tokens: int = 0
    eviction_passes: int = 0
    evicted_blocks_ttl: int = 0
    evicted_blocks_pressure: int = 0
    evicted_blocks_resize: int = 0
    wanted_again_ttl: int = 0
    wanted_again_pressure: int = 0
    wanted_again_resize: int = 0
    refused_blocks: int = 0
    bytes_written_down: int = 0
    stall_seconds: float = 0.0
    busy_seconds: float = 0.0
    new_roots: int = 0
    errors: int = 0


@dataclass(slots=True, kw_only=True)
class KindTotals:
    """Counters of the requests of one kind since the start."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Resident blocks and capacities of both tiers."""

    device_blocks: int
    device_capacity_blocks: int
    host_blocks: int
    host_capacity_blocks: int


class TtftHistogram:
    """Count times to first token: `counts[i]` holds bounds[i-1] < t <= bounds[i], the last one +Inf."""

    __slots__ = ("count", "counts", "sum_seconds")

    def __init__(self) -> None:
        """Start empty."""
        self.counts = [0] * (len(TTFT_BOUNDS_SECONDS) + 1)
        self.count = 0
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        self.counts[bisect_left(TTFT_BOUNDS_SECONDS, seconds)] += 1
        self.count += 1
        self.sum_seconds += seconds

    def cumulative(self) -> tuple[int, ...]:
        """Give the counts as Prometheus does: requests <= each bound, then all (`+Inf`)."""
        return tuple(accumulate(self.counts))


class _SeenRoots:
    """Remember session roots for at least ROOT_MEMORY_SECONDS, in two generations."""

    __slots__ = ("_older", "_recent", "_started_s")

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._older: set[int] = set()
        self._started_s = 0.0

    def is_new(self, root: int, now_s: float) -> bool:
        """Say whether a root was not seen lately, and remember it."""
        if now_s - self._started_s >= ROOT_MEMORY_SECONDS:
            self._older, self._recent, self._started_s = self._recent, set(), now_s
        if root in self._recent:
            return False
        self._recent.add(root)
        return root not in self._older


class ServingModel:
    """Serve requests in order of arrival; `totals`, `ttft` and `reuse` hold what was counted."""

    __slots__ = ("_cache", "_constants", "_free_s", "_now_s", "_roots", "_totals", "kinds", "reuse", "ttft")

    def __init__(
        self, constants: EngineConstants, settings: CacheSettings, *, max_reuse_age_s: float = 3600.0
    ) -> None:
        """Start empty and idle at time zero."""
        self._constants = constants
        self._cache = TieredCache(constants.device_blocks, settings)
        self._roots = _SeenRoots()
        self._free_s = 0.0
        self._now_s = 0.0
        self._totals = Totals()
        self.kinds = tuple(KindTotals() for _ in range(KINDS))
        self.ttft = TtftHistogram()
        self.reuse = ReuseAges(max_reuse_age_s)

    @property
    def constants(self) -> EngineConstants:
        """Give the engine's constants."""
        return self._constants

    @property
    def settings(self) -> CacheSettings:
        """Give the settings in force."""
        return self._cache.settings

    @property
    def now_s(self) -> float:
        """Give the latest time the model was told, seconds on the engine's clock."""
        return self._now_s

    def serve(
        self,
        arrival_s: float,
        blocks: Sequence[int],
        prompt_tokens: int,
        root: int | None = None,
        *,
        kind: int = 0,
        output_tokens: int = -1,
        hint: float = 0.0,
    ) -> Served:
        """Serve one request; blocks are prefix-chained ids, head first.

        Tokens past the last block are never hit. A policy may learn from `kind`, 0 (not known) to 5, from
        the tokens of the answer (-1: not known), and from what the client expects of its session (`hint`, as
        `signals.HINT` has it). Raises `BadRequest`, changing nothing, for an arrival before the latest
        time, for fewer prompt tokens than the blocks before the last one hold (at least one is needed), and
        for a kind that is none.
        """
        least = (len(blocks) - 1) * self._constants.block_tokens + 1 if blocks else 1
        if not (arrival_s >= self._now_s and prompt_tokens >= least and 0 <= kind < KINDS):
            self._refuse(arrival_s, f"{least}, for {len(blocks)} blocks", prompt_tokens, kind)
        self._now_s = arrival_s
        done = self._cache.process(
            blocks, arrival_s, kind=kind, output_tokens=output_tokens, prompt_tokens=prompt_tokens, hint=hint
        )
        device_tokens, host_tokens = self._hit_tokens(done, len(blocks), prompt_tokens)
        self.reuse.touch(blocks, arrival_s)
        ttft, queue, stall = self._take_turn(arrival_s, done, prompt_tokens - device_tokens - host_tokens)
        self.ttft.observe(ttft)
        totals, of_kind = self._totals, self.kinds[kind]
        of_kind.requests += 1
        of_kind.prompt_tokens += prompt_tokens
        of_kind.hit_tokens += device_tokens + host_tokens
        totals.device_hit_tokens += device_tokens
        totals.host_hit_tokens += host_tokens
        totals.stall_seconds += stall
        if root is not None and self._roots.is_new(root, arrival_s):
            totals.new_roots += 1
        return Served(ttft, queue, device_tokens, host_tokens, done.host.passes)

    def reconfigure(self, settings: CacheSettings, now_s: float) -> None:
        """Take new settings at once; a time before the latest one counts as the latest."""
        self._now_s = max(self._now_s, now_s)
        self._cache.reconfigure(settings, self._now_s)

    def advance(self, now_s: float) -> None:
        """Let time pass without a request, so that idle blocks end; an earlier time changes nothing."""
        self._now_s = max(self._now_s, now_s)
        self._cache.sweep(self._now_s)

    def occupancy(self) -> Occupancy:
        """Give the fill of both tiers at the latest time."""
        return Occupancy(
            device_blocks=len(self._cache.device),
            device_capacity_blocks=self._cache.device.rules.capacity,
            host_blocks=len(self._cache.host),
            host_capacity_blocks=self._cache.host.rules.capacity,
        )

    def _refuse(self, arrival_s: float, least: str, prompt_tokens: int, kind: int) -> NoReturn:
        """Say what is wrong: a request goes back in time, is of no kind, or is shorter than its blocks."""
        if not arrival_s >= self._now_s:
            raise BadRequest(f"arrival_s: {arrival_s} is before {self._now_s}")
        if not 0 <= kind < KINDS:
            raise BadRequest(f"kind: {kind} is not within 0 to {KINDS - 1}")
        raise BadRequest(f"prompt_tokens: {prompt_tokens} is less than {least}")

    def _hit_tokens(self, done: Processed, block_count: int, prompt_tokens: int) -> tuple[int, int]:
        """Turn hit blocks into tokens on the device and on the host; a hit last block may be partial."""
        block_tokens = self._constants.block_tokens
        device = (done.hit_blocks - done.host_hit_blocks) * block_tokens
        host = done.host_hit_blocks * block_tokens
        missing = block_count * block_tokens - prompt_tokens
        if missing > 0 and done.hit_blocks == block_count:
            if done.last_hit_on_host:
                host -= missing
            else:
                device -= missing
        return device, host

    def _take_turn(self, arrival_s: float, done: Processed, missed_tokens: int) -> tuple[float, float, float]:
        """Queue and serve one request; return TTFT, wait and stall in seconds."""
        constants = self._constants
        work, stall = done.host, 0.0
        if work.passes:
            stall = work.passes * constants.pass_stall_seconds
            stall += work.pass_blocks * constants.pass_stall_seconds_per_block
        service = (
            constants.base_seconds
            + done.host_hit_blocks * constants.host_load_seconds_per_block
            + (missed_tokens or 1) * constants.prefill_seconds_per_token
            + stall
        )
        start = max(self._free_s, arrival_s)
        self._free_s = start + service
        self._totals.busy_seconds += service
        return self._free_s - arrival_s, start - arrival_s, stall

    def learned(self) -> dict[str, object] | None:
        """Tell what the host's policy has learned, as `restore` takes it; None where it learns nothing."""
        host = self._cache.host
        return learned(host.cache.reuse) if host.rules.policy == REUSE_AWARE else None

    def lessons(self) -> Mapping[str, object] | None:
        """Tell what the host's ReuseAware has learned, whatever runs now; `teach` takes it. None: nothing."""
        return self._cache.host.lessons()

    def teach(self, lessons: Mapping[str, object]) -> None:
        """Let ReuseAware begin with these lessons; of an empty model only. Raises ValueError as `Level`."""
        self._cache.host.teach(lessons)

    @property
    def totals(self) -> Totals:
        """Give the counters as they stand; those that are counted elsewhere, too, are copied by asking."""
        counts, totals = self._cache.host.counts, self._totals
        totals.requests = sum(kind.requests for kind in self.kinds)
        totals.prompt_tokens = sum(kind.prompt_tokens for kind in self.kinds)
        totals.eviction_passes = counts[PASSES]
        totals.bytes_written_down = counts[WRITTEN] * self._constants.block_bytes
        totals.evicted_blocks_ttl = counts[LEFT + TTL]
        totals.evicted_blocks_pressure = counts[LEFT + PRESSURE]
        totals.evicted_blocks_resize = counts[LEFT + RESIZE]
        totals.wanted_again_ttl = counts[WANTED + TTL]
        totals.wanted_again_pressure = counts[WANTED + PRESSURE]
        totals.wanted_again_resize = counts[WANTED + RESIZE]
        totals.refused_blocks = counts[REFUSED]
        return totals
