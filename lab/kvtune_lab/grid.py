"""Find the best static configuration offline, by serving the same traffic under every point of a grid.

Called by the demo's --with-grid and the bench. The score is the tuner's own objective on the window after
the warm-up, mean over the agents; the search goes from a coarse grid over the bounds to finer ones around
the best point.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import exp, log
from typing import TypeAlias

from kvtune_cache.constants import EngineConstants
from kvtune_cache.serving import TTFT_BOUNDS_SECONDS, ServingModel, Totals
from kvtune_cache.tiers import CacheSettings
from kvtune_lab.traffic import Request
from kvtune_lab.workers import Workers
from kvtune_tuner.effect import GIB, Prices, objective
from kvtune_tuner.sli import Missing, WindowCounts

Traffic: TypeAlias = Sequence[Sequence[Request]]
Progress: TypeAlias = Callable[[int, int], None]

COARSE_POINTS = 5 * 3 * 6
FINE_POINTS = 3 * 3 * 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Smallest and largest value of each knob; sizes in blocks."""

    ttl_seconds: tuple[float, float]
    eviction_ratio: tuple[float, float]
    host_blocks: tuple[int, int]

    def __post_init__(self) -> None:
        """Refuse empty or non-positive ranges."""
        for field in ("ttl_seconds", "eviction_ratio", "host_blocks"):
            low, high = getattr(self, field)
            if not 0 < low <= high:
                raise ValueError(f"{field}: {low}..{high} is not a range of numbers above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is held fixed: engine, prices, TTFT limit (a bucket bound, seconds) and the end of the warm-up."""

    constants: EngineConstants
    prices: Prices
    limit_seconds: float = 0.25
    measure_from_s: float = 1200.0

    def __post_init__(self) -> None:
        """Refuse a limit between two buckets, which no histogram resolves."""
        if self.limit_seconds not in TTFT_BOUNDS_SECONDS:
            raise ValueError(f"limit_seconds: {self.limit_seconds} is no bucket bound of vLLM's")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """What one configuration did, mean over the agents; rates and shares in [0, 1]."""

    settings: CacheSettings
    objective: float
    hit_rate: float
    share_within_limit: float
    passes_per_minute: float
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GridResult:
    """The best point and every point that was served, in the order they were."""

    best: GridPoint
    points: tuple[GridPoint, ...]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Counters of one agent at one moment."""

    totals: Totals
    within: int
    counted: int


def evaluate(traffic: Traffic, settings: CacheSettings, study: Study) -> GridPoint:
    """Serve every agent's requests under one configuration.

    Raises ValueError where an agent has no request after the warm-up.
    """
    rows = [_serve(requests, settings, study) for requests in traffic]
    if not rows:
        raise ValueError("traffic: no agent")
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return GridPoint(
        settings=settings,
        objective=means[0],
        hit_rate=means[1],
        share_within_limit=means[2],
        passes_per_minute=means[3],
        utilisation=means[4],
    )


def search(
    traffic: Traffic,
    bounds: Bounds,
    study: Study,
    *,
    rounds: int = 3,
    processes: int = 2,
    progress: Progress | None = None,
) -> GridResult:
    """Search from coarse to fine: 5 x 3 x 6 log-spaced points over the bounds, then 27 around the best.

    `progress(done, at_most)` is called after every point. `processes` = 1 works in this process; more are
    spawned, so the caller's main module must be importable. Raises ValueError for rounds < 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds: {rounds} is less than 1")
    at_most = COARSE_POINTS + FINE_POINTS * (rounds - 1)
    points: dict[CacheSettings, GridPoint] = {}
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, at_most)

    with Workers(partial(_evaluate_of, (traffic, study)), processes) as workers:
        wanted = _coarse(bounds)
        for number in range(rounds):
            fresh = [settings for settings in wanted if settings not in points]
            points.update(zip(fresh, workers.map(fresh, count), strict=True))
            best = max(points.values(), key=_score)
            wanted = _around(best.settings, bounds, number + 1)
    return GridResult(best=best, points=tuple(points.values()))


def _evaluate_of(held: tuple[Traffic, Study], settings: CacheSettings) -> GridPoint:
    return evaluate(held[0], settings, held[1])


def _score(point: GridPoint) -> float:
    return point.objective


def _serve(requests: Sequence[Request], settings: CacheSettings, study: Study) -> tuple[float, ...]:
    """Serve one agent; return objective, hit rate, share within the limit, passes a minute, utilisation."""
    model = ServingModel(study.constants, settings)
    start: _Mark | None = None
    for request in requests:
        if start is None and request.arrival_s >= study.measure_from_s:
            start = _mark(model, study)
        model.serve(
            request.arrival_s,
            request.blocks,
            request.prompt_tokens,
            output_tokens=request.output_tokens,
            hint=request.hint.returns_in_seconds if request.hint is not None else 0.0,
        )
    if start is None:
        raise ValueError(f"traffic: an agent has no request after {study.measure_from_s} s")
    return _figures(start, _mark(model, study), model.now_s - study.measure_from_s, study, settings)


def _mark(model: ServingModel, study: Study) -> _Mark:
    within = model.ttft.cumulative()[TTFT_BOUNDS_SECONDS.index(study.limit_seconds)]
    return _Mark(copy(model.totals), within, model.ttft.count)


def _figures(
    start: _Mark, end: _Mark, seconds: float, study: Study, settings: CacheSettings
) -> tuple[float, ...]:
    a, b = start.totals, end.totals
    seconds = max(seconds, 1e-9)
    hits = b.device_hit_tokens + b.host_hit_tokens - a.device_hit_tokens - a.host_hit_tokens
    window = WindowCounts(
        seconds=seconds,
        requests=float(b.requests - a.requests),
        prompt_tokens=float(b.prompt_tokens - a.prompt_tokens),
        hit_tokens=float(hits),
        eviction_passes=float(b.eviction_passes - a.eviction_passes),
        bytes_down=float(b.bytes_written_down - a.bytes_written_down),
    )
    gib = settings.host_blocks * study.constants.block_bytes / GIB
    score = objective(window, gib_configured=gib, prices=study.prices)
    if isinstance(score, Missing):
        raise ValueError(f"traffic: no objective: {score.message}")
    return (
        score,
        hits / (b.prompt_tokens - a.prompt_tokens),
        (end.within - start.within) / (end.counted - start.counted),
        (b.eviction_passes - a.eviction_passes) * 60 / seconds,
        (b.busy_seconds - a.busy_seconds) / seconds,
    )


def _levels(low: float, high: float, count: int) -> list[float]:
    """Space `count` values evenly in the logarithm, both ends included and exact."""
    if low == high:
        return [low]
    step = log(high / low) / (count - 1)
    return [low, *(low * exp(step * i) for i in range(1, count - 1)), high]


def _coarse(bounds: Bounds) -> list[CacheSettings]:
    return _product(
        _levels(*bounds.ttl_seconds, 5), _levels(*bounds.eviction_ratio, 3), _levels(*bounds.host_blocks, 6)
    )


def _around(best: CacheSettings, bounds: Bounds, halvings: int) -> list[CacheSettings]:
    """Give the neighbours of a point at the coarse grid's spacing halved that often, within the bounds."""

    def three(value: float, low: float, high: float, count: int) -> list[float]:
        factor = (high / low) ** (1 / (count - 1) / 2**halvings)
        return [min(max(value * f, low), high) for f in (1 / factor, 1.0, factor)]

    return _product(
        three(best.ttl_seconds, *bounds.ttl_seconds, 5),
        three(best.eviction_ratio, *bounds.eviction_ratio, 3),
        three(best.host_blocks, *bounds.host_blocks, 6),
    )


def _product(ttls: Sequence[float], ratios: Sequence[float], hosts: Sequence[float]) -> list[CacheSettings]:
    made = (
        CacheSettings(ttl_seconds=ttl, eviction_ratio=ratio, host_blocks=round(host))
        for ttl, ratio, host in product(ttls, ratios, hosts)
    )
    return list(dict.fromkeys(made))
