"""The replay engine: serves batches of requests by the model of kvtune_cache, without a GPU.

Its counters advance by each request's own arrival time. The watermark (no request before it is still to come)
closes grid times; a batch moves it to its `until`. When no batch comes for 10 wall seconds it follows the
clock, 10 wall seconds behind, so that no traffic is reported as no increase and not as nothing. Pushes act at
the watermark.

A batch is served in slices with a turn of the event loop between them, so that the agent answers meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kvtune_agent.clock import Clock
from kvtune_agent.engine import Missed, Snapshot
from kvtune_agent.engines.batches import QueueFull, ReplayBatch, Replayed, ReplayRequest, check_batch, slices
from kvtune_agent.engines.grid import GridRows, grid_at_or_before
from kvtune_agent.engines.guarded_model import GuardedModel
from kvtune_agent.engines.load import load_of
from kvtune_agent.engines.reuse_window import ReuseWindow
from kvtune_agent.engines.rows import QueueTimes, row_of, snapshot_of
from kvtune_agent.engines.translate import geometry_of, guard_rules, own_values, settings_of
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.wire import GRID_SECONDS, Fallback, FallbackRules, Geometry, KnobSupport, Load, ReuseAges
from kvtune_cache.constants import EngineConstants
from kvtune_cache.guard import GuardRules
from kvtune_cache.serving import BadRequest, ServingModel
from kvtune_cache.tiers import CacheSettings

VERSION = "2"
"""Changes when the same requests and settings no longer give the same counters."""

GRACE_SECONDS = 10.0
PENDING_MAX = 20_000
AHEAD_SECONDS = 3600.0
"""How far ahead of the clock a batch may end, engine seconds, beside a wall minute."""


class ReplayEngine:
    """Implement `kvtune_agent.engine.Engine` over a `ServingModel`, fed by `replay`."""

    def __init__(
        self,
        constants: EngineConstants,
        config: CacheConfig,
        clock: Clock,
        *,
        keep_seconds: float,
        guard: GuardRules | None = None,
        record: Callable[[ReplayRequest], None] | None = None,
        serving: Callable[[EngineConstants, CacheSettings], ServingModel] = ServingModel,
    ) -> None:
        """Start empty; raises `SpecError` as `check` does and for unset knobs.

        `record` is told of every request that was served; `serving` makes the model.
        """
        self._constants = constants
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._record = record
        self._own = own_values(config)
        self._own_rules = guard if guard is not None else GuardRules()
        self._started_at = clock.now()
        self._guarded = GuardedModel(
            partial(serving, constants), settings_of(self._own, constants), self._own_rules, self._started_at
        )
        self._turn = asyncio.Lock()
        self._pending = 0
        self._applied_until: float | None = None
        self._heard_at = clock.monotonic()
        self._watermark: float | None = None
        self._next_close: int | None = None
        self._begin_rows()

    @property
    def name(self) -> str:
        """Kind of engine."""
        return "replay"

    @property
    def version(self) -> str:
        """Version of the engine's behaviour and its constants' name."""
        return f"replay-{VERSION}+{self._constants.name}"

    @property
    def model_name(self) -> str:
        """The preset, where vLLM names its model."""
        return self._constants.name

    @property
    def geometry(self) -> Geometry:
        """Block sizes of the preset."""
        return geometry_of(self._constants)

    @property
    def supports(self) -> tuple[KnobSupport, ...]:
        """Every knob, live."""
        return tuple(KnobSupport(knob=knob, live=True) for knob in Knob)

    @property
    def started_at(self) -> float:
        """When the counters began, engine seconds."""
        return self._started_at

    @property
    def pending(self) -> int:
        """Requests that were taken and are not served yet."""
        return self._pending

    @property
    def settings(self) -> CacheSettings:
        """What the model runs: what was asked for, or LRU in place of its policy."""
        return self._model.settings

    @property
    def fallback(self) -> Fallback | None:
        """Why LRU runs in place of the policy asked for."""
        return self._guarded.fallback

    @property
    def fallbacks(self) -> Mapping[str, int]:
        """How often it fell back, by reason."""
        return self._guarded.falls

    def check(self, config: CacheConfig) -> None:
        """Raise `SpecError` for a host tier smaller than one block."""
        self._translated(config)

    def apply(self, config: CacheConfig) -> None:
        """Run a configuration from the watermark on; an unset knob goes back to the start's value."""
        self._guarded.apply(self._translated(config))

    def fall_back_by(self, rules: FallbackRules | None) -> None:
        """Judge the policy by these rules from now on; None: by the start's."""
        self._guarded.judge_by(guard_rules(rules, self._own_rules))

    def restore(self) -> bool:
        """Run the policy asked for again; False where it runs already, or fails at once."""
        return self._guarded.restore()

    def learned(self) -> Mapping[str, object] | None:
        """What the policy that runs has learned; None where it learns nothing."""
        return self._model.learned()

    def lessons(self) -> Mapping[str, object] | None:
        """What ReuseAware has learned, whatever runs now; None: nothing."""
        return self._model.lessons()

    def teach(self, lessons: Mapping[str, object]) -> None:
        """Let ReuseAware begin with this; before anything is served. Raises ValueError, naming the field."""
        self._model.teach(lessons)

    async def replay(self, batch: ReplayBatch) -> Replayed | QueueFull:
        """Serve a batch after all before it. Raises `SpecError` for a bad one; nothing has changed."""
        check_batch(batch, latest_until=self._clock.now() + AHEAD_SECONDS + 60.0 * self._clock.speed)
        size = len(batch.requests)
        if self._pending and self._pending + size > PENDING_MAX:
            return QueueFull(pending=self._pending, limit=PENDING_MAX)
        self._pending += size
        try:
            async with self._turn:
                return await self._serve_batch(batch)
        finally:
            self._pending -= size
            self._heard_at = self._clock.monotonic()

    def follow(self) -> None:
        """Move the watermark behind the clock when no batch has come for the grace time."""
        if self._turn.locked() or self._clock.monotonic() - self._heard_at < GRACE_SECONDS:
            return
        until = self._clock.now() - GRACE_SECONDS * self._clock.speed
        if self._next_close is None:
            self._next_close = grid_at_or_before(self._started_at) + GRID_SECONDS
        self._move_watermark(until)

    def newest(self) -> Snapshot | None:
        """Counters at the newest closed grid time."""
        at = self._grid.newest_at
        row = self._grid.row(at) if at is not None else None
        return snapshot_of(row, at=at, started_at=self._started_at) if at is not None and row else None

    def at(self, at: float) -> Snapshot | Missed:
        """Counters at a grid time, or why there are none."""
        row = self._grid.row(at)
        if row is not None:
            return snapshot_of(row, at=at, started_at=self._started_at)
        newest = self._grid.newest_at
        if newest is None:
            return Missed.BOUND_MISSED if at < self._clock.now() - self._keep_seconds else Missed.NOT_YET
        return Missed.NOT_YET if at > newest else Missed.BOUND_MISSED

    def load(self) -> Load:
        """Rates over the last 5 minutes of the engine's clock, or what there is of them."""
        return load_of(self._grid)

    def reuse(self) -> ReuseAges | None:
        """Ages at re-touch over the last hour; None while no block was touched."""
        return self._reuse.ages(self._model.now_s, self._model.reuse.snapshot())

    def host_used_bytes(self) -> float:
        """Bytes resident in the host tier."""
        return float(self._model.occupancy().host_blocks * self._constants.block_bytes)

    @property
    def _model(self) -> ServingModel:
        """The model, to be looked at; it is entered through its guard."""
        return self._guarded.model

    def _begin_rows(self) -> None:
        """Begin with no closed grid time."""
        self._queue = QueueTimes()
        self._grid = GridRows(self._keep_seconds)
        self._reuse = ReuseWindow()
        self._watermark = None
        self._next_close = None

    def _translated(self, config: CacheConfig) -> CacheSettings:
        return settings_of({**self._own, **point(config)}, self._constants)

    async def _serve_batch(self, batch: ReplayBatch) -> Replayed:
        requests = batch.requests
        self._begin_at_first_batch(requests[0][0] if requests else batch.until)
        done, closed = self._applied_until, self._watermark
        repeated = sum(done is not None and request[0] <= done for request in requests)
        seen = sum(closed is not None and request[0] <= closed for request in requests)
        before = self._model.totals.errors
        for piece in slices(requests[seen:]):
            self._serve(piece)
            await asyncio.sleep(0)
        self._applied_until = batch.until if done is None else max(done, batch.until)
        self._move_watermark(batch.until)
        errors = self._model.totals.errors - before
        return Replayed(
            served=len(requests) - seen - errors,
            repeated=repeated,
            late=seen - repeated,
            errors=errors,
            watermark=self._watermark if self._watermark is not None else batch.until,
        )

    def _begin_at_first_batch(self, first: float) -> None:
        """Let the first batch lie in the past of a watermark that has only followed the clock."""
        if self._applied_until is None and self._watermark is not None and first <= self._watermark:
            self._started_at = self._clock.now()
            self._guarded.begin_anew(self._started_at)
            self._begin_rows()
        if self._next_close is None:
            self._next_close = grid_at_or_before(first)
            self._guarded.watch_from(first)
        if self._reuse.is_empty:
            self._reuse.note(first, self._model.reuse.snapshot())

    def _serve(self, requests: Sequence[ReplayRequest]) -> None:
        serve, observe, totals = self._guarded.serve, self._queue.observe, self._model.totals
        for request in requests:
            arrival = request[0]
            if self._next_close is not None and arrival > self._next_close:
                self._close_before(arrival)
            try:
                served = serve(request)
            except BadRequest:
                totals.errors += 1
            else:
                observe(served.queue_seconds)
                if self._record is not None:
                    self._record(request)

    def _close_before(self, arrival: float) -> None:
        """Close every grid time before an arrival; what arrives at a grid time counts in it."""
        last = grid_at_or_before(arrival)
        self._close_through(last if last < arrival else last - GRID_SECONDS)

    def _move_watermark(self, until: float) -> None:
        if self._watermark is None or until > self._watermark:
            self._watermark = until
            self._close_through(grid_at_or_before(until))
            self._guarded.advance(until)

    def _close_through(self, last: int) -> None:
        """Close grid times up to `last`, leaving out what would be too old to keep at once."""
        at = self._next_close
        assert at is not None
        at = max(at, last - grid_at_or_before(self._keep_seconds))
        for closing in range(at, last + 1, GRID_SECONDS):
            self._guarded.advance(closing)
            self._grid.close(closing, row_of(self._model, self._queue))
            self._guarded.observe(closing)
            if self._reuse.is_due(closing):
                self._reuse.note(closing, self._model.reuse.snapshot())
            self._next_close = closing + GRID_SECONDS
