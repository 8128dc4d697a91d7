"""One simulated agent's life: its switches, and its counters as closed forms of time.

A life is a list of spans with one configuration each, and noise is a seeded cumulative sum over cells of the
agents' 5 s grid, so any moment, also a past one, costs a look-up.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.wire import GRID_SECONDS, Counters, Fallback, Histogram, Load, Push, Role
from kvtune_tuner.sli import Missing
from tests.fakes.responses import Response, Surface
from tests.fakes.spans import Noise, Span, Sums

TTFT_BOUNDS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
)
NOISE_SCALE = (120.0 / GRID_SECONDS) ** 0.5
"""Sd of a 5 s cell per sd of a 120 s window, for white noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """What the pool is like. The sd of a Delta over windows of M seconds is `noise_sd * sqrt(120 / M)`.

    Noise is white, so hits may fall within 5 s; over a minute they do not unless `noise_sd` is above .03.
    """

    agents: int = 6
    seed: int = 0
    start: float = 1893456000.0
    """Engine second at which the pool begins (that of `FakeClock`'s origin)."""

    warm_seconds: float = 1200.0
    """Traffic before `start`, so that windows before it exist."""

    request_rate: float = 5.0
    prompt_tokens: float = 2000.0
    noise_sd: float = 0.01
    """Sd of one agent's hit rate over a 120 s window."""

    share_sd: float = 0.01
    """Sd of one agent's share of requests within the limit over a 120 s window."""

    common_sd: float = 0.01
    """Noise that all agents share at one time: cancels within a pair."""

    agent_sd: float = 0.02
    """How much agents differ for good (cancels over a block's two epochs)."""

    ttft_limit: float = 0.25
    roots_per_request: float | None = 0.2
    ring_seconds: float = 1e10
    speed: float = 1.0
    version: str = "0.1.0"


@dataclass(slots=True, kw_only=True)
class SimAgent:
    """One simulated agent. Tests set its switches; everything else goes through `Pool`."""

    name: str
    started_at: float
    incumbent: CacheConfig
    config: CacheConfig
    role: Role = Role.INCUMBENT
    generation: int = 0
    token: int = 0
    policy_uid: str = ""
    last_push: Push | None = None
    lease_ends: float | None = None
    """Engine second at which the candidate's lease ends (wall seconds times speed)."""

    lapses: int = 0
    pushes: int = 0
    """How many pushes it took (answered with 200)."""

    down: bool = False
    """Does not answer anything (its engine goes on)."""

    slow: bool = False
    """Every answer comes too late; what was asked is done nevertheless."""

    nan: bool = False
    """Its metrics hold NaN."""

    missing: Missing | None = None
    """What its metrics say instead of counters."""

    refuses_token: bool = False
    """Answers pushes with 401."""

    unsupported: frozenset[Knob] = frozenset()
    not_live: frozenset[Knob] = frozenset()
    version: str | None = None
    shrug: bool = False
    """Takes pushes but goes on with what it runs (configuration drift)."""

    fallback: Fallback | None = None
    """Evicts by LRU in place of what it was asked to run."""

    life: "Life"


@dataclass(slots=True, kw_only=True)
class Life:
    """The counters of one agent at any moment."""

    settings: PoolSettings
    index: int
    common: Noise
    surface: Surface
    own: Noise = field(init=False)
    share: Noise = field(init=False)
    offset: float = field(init=False)
    spans: list[Span] = field(default_factory=list)
    _known: dict[int, Counters] = field(default_factory=dict)
    _load: tuple[float, Load] | None = None

    def __post_init__(self) -> None:
        seed = self.settings.seed
        self.own, self.share = Noise(seed, 3, self.index), Noise(seed, 4, self.index)
        normal = float(np.random.default_rng((seed, 2, self.index)).standard_normal())
        self.offset = max(-2.0, min(2.0, normal)) * self.settings.agent_sd

    def start(self, config: CacheConfig, now: float) -> None:
        """Begin with all counters at zero."""
        self._known.clear()
        self._load = None
        rate = self.spans[-1].rate if self.spans else self.settings.request_rate
        self.spans = [Span(cell=self.cell(now), response=self._response(config), rate=rate)]

    def change(
        self, config: CacheConfig, at: float, *, rate: float | None = None, errors_rate: float | None = None
    ) -> None:
        """Go on with another configuration or traffic from the next grid time on."""
        last = self.spans[-1]
        cell = max(self.cell(at), last.cell)
        new = Span(
            cell=cell,
            response=self._response(config),
            rate=last.rate if rate is None else rate,
            errors_rate=last.errors_rate if errors_rate is None else errors_rate,
            before=self._sums(last, cell),
        )
        if cell == last.cell:
            self.spans.pop()
        self.spans.append(new)

    def counters(self, at: float, started_at: float) -> Counters:
        """The counters at a grid time."""
        cell = self.cell(at)
        known = self._known.get(cell)
        if known is None:
            known = self._counters(at, cell, started_at)
            if len(self._known) > 200:
                self._known.clear()
            self._known[cell] = known
        return known

    def load(self, now: float, started_at: float) -> Load:
        """Request rate and hit rate of the last five minutes, renewed every minute."""
        end = now // 60 * 60
        if self._load is None or self._load[0] != end:
            self._load = (end, self._new_load(end, started_at))
        return self._load[1]

    def cell(self, at: float) -> int:
        """The first cell that begins at or after a time."""
        zero = self.settings.start - self.settings.warm_seconds
        return max(0, -int(-(at - zero) // GRID_SECONDS))

    def _response(self, config: CacheConfig) -> Response:
        response, room = self.surface(config), 3 * self.settings.noise_sd * NOISE_SCALE
        if not room <= response.hit_rate <= 1 - room:
            raise ValueError(
                f"hit rate {response.hit_rate}: noise_sd {self.settings.noise_sd} needs more room"
            )
        return response

    def _sums(self, span: Span, cell: int) -> Sums:
        settings, response, before = self.settings, span.response, span.before
        cells = cell - span.cell
        seconds = cells * GRID_SECONDS if span.rate > 0 else 0
        noise = settings.noise_sd * (self.own.sum(cell) - self.own.sum(span.cell))
        noise += settings.common_sd * (self.common.sum(cell) - self.common.sum(span.cell))
        share_noise = settings.share_sd * (self.share.sum(cell) - self.share.sum(span.cell))
        hit_rates = (response.hit_rate + self.offset) * cells + noise * NOISE_SCALE
        shares = response.share * cells + share_noise * NOISE_SCALE
        per_cell = span.rate * GRID_SECONDS
        return Sums(
            requests=before.requests + per_cell * cells,
            hits=before.hits + per_cell * settings.prompt_tokens * hit_rates,
            within=before.within + per_cell * shares,
            passes=before.passes + response.passes_per_minute * seconds / 60,
            bytes_down=before.bytes_down + response.bytes_down_per_second * seconds,
            errors=before.errors + span.errors_rate * cells * GRID_SECONDS,
        )

    def _counters(self, at: float, cell: int, started_at: float) -> Counters:
        index = max(0, bisect_right(self.spans, cell, key=lambda span: span.cell) - 1)
        sums = self._sums(self.spans[index], max(cell, self.spans[index].cell))
        prompt, roots = sums.requests * self.settings.prompt_tokens, self.settings.roots_per_request
        return Counters(
            at=at,
            started_at=started_at,
            requests=sums.requests,
            prompt_tokens=prompt,
            hit_tokens=min(prompt, max(0.0, sums.hits)),
            eviction_passes=sums.passes,
            bytes_down=sums.bytes_down,
            errors=sums.errors,
            new_session_roots=None if roots is None else roots * sums.requests,
            ttft=self._histogram(sums.requests, min(sums.requests, max(0.0, sums.within))),
        )

    def _histogram(self, requests: float, within: float) -> Histogram:
        limit, beyond = self.settings.ttft_limit, requests - within
        counts = [
            within * bound / limit if bound <= limit else requests - beyond * (limit / bound) ** 2
            for bound in TTFT_BOUNDS
        ]
        return Histogram(bounds=TTFT_BOUNDS, counts=(*counts, requests), sum=requests * limit)

    def _new_load(self, end: float, started_at: float) -> Load:
        start = max(end - 300.0, -(-started_at // GRID_SECONDS) * GRID_SECONDS)
        if end - start < 60:
            return Load(span_seconds=max(0.0, end - start))
        first, last = self.counters(start, started_at), self.counters(end, started_at)
        requests = (last.requests or 0.0) - (first.requests or 0.0)
        hits = (last.hit_tokens or 0.0) - (first.hit_tokens or 0.0)
        prompt = requests * self.settings.prompt_tokens
        hit_rate = min(1.0, max(0.0, hits / prompt)) if prompt else None
        return Load(span_seconds=end - start, request_rate=requests / (end - start), hit_rate=hit_rate)
