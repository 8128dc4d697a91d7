"""Predict the objective of a configuration from how old blocks are when they are touched again.

Called by reuse_proposal.py, and by whoever wants a prediction beside a measurement. The working-set argument
(Denning 1968; Che, Tung, Wang 2002 for LRU): a tier that holds blocks idle for up to T answers exactly the
touches with age <= T.
With N touches in s seconds and F(a) = re-touches with age <= a / N (experiments.md 10), per agent:

    held(T) = N/s x integral_0^T (1 - F)      blocks touched within T
    T_c:  held(T_c) = C (1 - ratio/2)         C host blocks; a tier emptied in passes is that full on average
    T_e = min(TTL, T_c)                       idle time that the host tier keeps a block
    T_d:  held(T_d) = device blocks           the device tier is an LRU of its own under the same touches
    hit = re-touches with age <= max(T_d, T_e) / prompt blocks
    passes/min = 60 x N/s x (1 - F(T_e)) / (ratio x C) if T_c <= TTL else 0
    GiB down/min = 60 x N/s x (1 - F(T_e)) x block bytes / 2**30     (write-through)
    objective = hit - .01 x (memory x GiB host + pass x passes/min + down x GiB down/min)

The prediction is raw: it is never corrected by a measurement, because it is shown beside it. It knows nothing
of a request's partial last block, pinning, or a load that changes. It predicts nothing across eviction
policies or store thresholds (`MODELLED`): under any policy it answers as if blocks left in order of their
last touch, and proposes TTLs and sizes by that. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob, Point
from kvtune_api.policy import Prices
from kvtune_api.wire import Geometry, Report, ReuseAges
from kvtune_tuner.configs import same_value
from kvtune_tuner.proposal import NotAvailable
from kvtune_tuner.workload import LEAST_TOUCHES

Floats = NDArray[np.float64]

GIB = 2**30

MODELLED = (Knob.CACHE_TTL, Knob.EVICTION_RATIO, Knob.HOST_MEMORY)
"""The knobs that the model knows; of two configurations that differ in another one it predicts no gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What the agents of a pool report about reuse, as of one average agent.

    The arrays share their shape [bins + 1]: edges from 0 s up, and what holds at each edge. Within a bin ages
    are taken as spread evenly; above the last edge nothing is re-touched.
    """

    edges_s: Floats
    reused: Floats
    """F at each edge."""

    held: Floats
    """Blocks touched within each edge."""

    touches_per_second: float
    touches_per_prompt_block: float
    touches: float
    agents: int
    geometry: Geometry
    others: Point
    """Values of the knobs that all agents run alike, for configurations that do not set them."""

    def reused_within(self, age_s: Floats) -> Floats:
        """Give F(age): the share of touches that are re-touches within an age."""
        return np.interp(age_s, self.edges_s, self.reused)

    def age_held(self, blocks: Floats) -> Floats:
        """Give the age within which so many blocks are touched; infinity where there never are so many."""
        at = np.clip(np.searchsorted(self.held, blocks, side="right") - 1, 0, len(self.held) - 1)
        slopes = np.append(np.diff(self.reused) / np.diff(self.edges_s), 0.0)[at]
        rest = 1.0 - self.reused[at]
        need = (blocks - self.held[at]) / self.touches_per_second
        root = np.sqrt(np.maximum(rest**2 - 2.0 * slopes * need, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where(need > 0, 2.0 * need / (rest + root), 0.0)
        return np.asarray(self.edges_s[at] + beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What an average agent is predicted to do under one configuration."""

    hit_rate: float
    passes_per_minute: float
    bytes_down_gib_per_minute: float
    objective: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """The same for many configurations; all arrays of one shape."""

    hit_rate: Floats
    passes_per_minute: Floats
    bytes_down_gib_per_minute: Floats
    objective: Floats


def pool(reports: Sequence[Report]) -> Reuse | NotAvailable:
    """Put together what the agents report, or say what is missing."""
    known = [report for report in reports if report.reuse is not None and report.geometry is not None]
    ages = [report.reuse for report in known if report.reuse is not None]
    geometries = [report.geometry for report in known if report.geometry is not None]
    if not known:
        return NotAvailable(reason=f"none of {len(reports)} agents reports reuse ages and block sizes")
    if any(geometry != geometries[0] for geometry in geometries):
        return NotAvailable(reason="agents report different block or device sizes")
    pooled = pool_ages(ages)
    if isinstance(pooled, NotAvailable):
        return pooled
    return _reuse(pooled, geometries[0], agents=len(known), others=_alike(known))


def pool_ages(ages: Sequence[ReuseAges]) -> ReuseAges | NotAvailable:
    """Add counts, and seconds too: the result speaks of one average agent. At least one is needed."""
    first = ages[0]
    scale = (first.first_edge_seconds, first.bins_per_octave)
    if any((one.first_edge_seconds, one.bins_per_octave) != scale for one in ages):
        return NotAvailable(reason="agents report reuse ages in different bins")
    counts = [0.0] * max(len(one.counts) for one in ages)
    for one in ages:
        for i, count in enumerate(one.counts):
            counts[i] += count
    return ReuseAges(
        touches=sum(one.touches for one in ages),
        prompt_blocks=sum(one.prompt_blocks for one in ages),
        seconds=sum(one.seconds for one in ages),
        first_edge_seconds=first.first_edge_seconds,
        bins_per_octave=first.bins_per_octave,
        counts=tuple(counts),
    )


def predict(reuse: Reuse, prices: Prices, config: CacheConfig) -> Prediction | NotAvailable:
    """Predict one configuration; knobs that it does not set are those that all agents run."""
    point = completed(reuse, config)
    if isinstance(point, NotAvailable):
        return point
    many = predict_many(reuse, prices, {knob: np.array([value]) for knob, value in point.items()})
    return Prediction(
        hit_rate=float(many.hit_rate[0]),
        passes_per_minute=float(many.passes_per_minute[0]),
        bytes_down_gib_per_minute=float(many.bytes_down_gib_per_minute[0]),
        objective=float(many.objective[0]),
    )


def predict_many(reuse: Reuse, prices: Prices, points: dict[Knob, Floats]) -> Predictions:
    """Predict many configurations; `points` has every knob of `MODELLED`, as arrays of one shape."""
    ttl, ratio, host_bytes = points[Knob.CACHE_TTL], points[Knob.EVICTION_RATIO], points[Knob.HOST_MEMORY]
    capacity = np.floor(host_bytes / reuse.geometry.block_bytes)
    age_full = _age_full(reuse, capacity, ratio)
    age_kept = np.minimum(ttl, age_full)
    age_device = reuse.age_held(np.array(float(reuse.geometry.device_blocks)))
    hits = reuse.reused_within(np.maximum(age_kept, age_device)) * reuse.touches_per_prompt_block
    inserts = np.where(capacity > 0, reuse.touches_per_second * (1.0 - reuse.reused_within(age_kept)), 0.0)
    per_pass = np.maximum(1.0, np.floor(ratio * capacity + 1e-9))
    passes = np.where(age_full <= ttl, 60.0 * inserts / per_pass, 0.0)
    down = 60.0 * inserts * reuse.geometry.block_bytes / GIB
    cost = prices.memory * host_bytes / GIB + prices.eviction_pass * passes + prices.bytes_down * down
    return Predictions(
        hit_rate=np.minimum(hits, 1.0),
        passes_per_minute=passes,
        bytes_down_gib_per_minute=down,
        objective=np.minimum(hits, 1.0) - 0.01 * cost,
    )


def age_full_s(reuse: Reuse, config: CacheConfig) -> float | NotAvailable:
    """Predict T_c: the age up to which the host tier would hold blocks without a TTL, seconds."""
    point = completed(reuse, config)
    if isinstance(point, NotAvailable):
        return point
    capacity = np.floor(np.array([point[Knob.HOST_MEMORY]]) / reuse.geometry.block_bytes)
    return float(_age_full(reuse, capacity, np.array([point[Knob.EVICTION_RATIO]]))[0])


def _age_full(reuse: Reuse, capacity: Floats, ratio: Floats) -> Floats:
    return reuse.age_held(capacity * (1.0 - ratio / 2.0))


def completed(reuse: Reuse, config: CacheConfig) -> dict[Knob, float] | NotAvailable:
    """Give every modelled knob of a configuration, with what all agents run where it sets none."""
    point = {**reuse.others, **knobs.point(config)}
    for knob in MODELLED:
        if knob not in point:
            return NotAvailable(reason=f"{knob}: not set, and agents report no common value")
    return {knob: point[knob] for knob in MODELLED}


def comparable(a: CacheConfig, b: CacheConfig) -> bool:
    """Say whether the model may predict the difference of two configurations."""
    left, right = ({k: v for k, v in knobs.point(c).items() if k not in MODELLED} for c in (a, b))
    return left == right


def _reuse(ages: ReuseAges, geometry: Geometry, *, agents: int, others: Point) -> Reuse | NotAvailable:
    counts = np.asarray(ages.counts, dtype=np.float64)
    if ages.touches < LEAST_TOUCHES or ages.prompt_blocks <= 0:
        return NotAvailable(reason=f"{ages.touches:.0f} touches so far, {LEAST_TOUCHES} are needed")
    figures = (counts.sum(), ages.touches, ages.prompt_blocks, ages.seconds)
    if not np.all(np.isfinite(figures)) or counts.sum() > ages.touches * (1 + 1e-9):
        said = f"{counts.sum():.0f} re-touches of {ages.touches:.0f} touches"
        return NotAvailable(reason=f"reuse ages are inconsistent: {said}")
    uppers = ages.first_edge_seconds * 2.0 ** (np.arange(len(counts)) / ages.bins_per_octave)
    edges = np.concatenate(([0.0], uppers))
    reused = np.minimum(np.concatenate(([0.0], np.cumsum(counts))) / ages.touches, 1.0)
    rate = ages.touches / ages.seconds
    new = np.diff(edges) * (1.0 - (reused[1:] + reused[:-1]) / 2.0)
    return Reuse(
        edges_s=edges,
        reused=reused,
        held=rate * np.concatenate(([0.0], np.cumsum(new))),
        touches_per_second=rate,
        touches_per_prompt_block=ages.touches / ages.prompt_blocks,
        touches=ages.touches,
        agents=agents,
        geometry=geometry,
        others=others,
    )


def _alike(reports: Sequence[Report]) -> dict[Knob, float]:
    """Give the knobs that all agents' incumbents have alike; a TTL that no engine has is infinite."""
    points = [knobs.point(report.running.incumbent) for report in reports]
    alike = {
        knob: value
        for knob, value in points[0].items()
        if all(knob in point and same_value(point[knob], value) for point in points)
    }
    if not any(s.knob is Knob.CACHE_TTL for report in reports for s in report.supports):
        alike[Knob.CACHE_TTL] = float("inf")
    return alike
