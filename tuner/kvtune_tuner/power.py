"""Say before an experiment starts how likely it finds an effect.

Called by plan for status and for the refusal Underpowered. A seeded simulation of the very tests of
compare.py: the same arguments give the same figure everywhere. How long it takes is in schedule.py. Pure."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_tuner.compare import LAMBDAS

RUNS = 2000
SEED = 1
FEWEST_RUNS = 100
LARGEST_PAIRS = 240
"""Deltas beyond which nobody waits for an answer, and beyond which fewer runs are simulated."""

_WEIGHTS = 2.0 * np.array(LAMBDAS, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerDesign:
    """Hold what decides the power: Deltas, how many come per block, and each guardrail's (margin, sd).

    dmin is the smallest worthwhile effect. Guardrails are simulated with a true effect of zero: they cost
    power too."""

    pairs: int
    pairs_per_block: int
    alpha: float = 0.05
    min_pairs: int = 8
    dmin: float = 0.0
    guardrails: tuple[tuple[float, float], ...] = ()


def power(effect: float, sd: float, design: PowerDesign) -> float:
    """Return the probability of a promotion within design.pairs Deltas at a true effect; 2,000 seeded runs.

    s0 is taken to be the sd. Accurate to about 2 points; beyond 240 Deltas, where runs are fewer so that the
    answer takes no longer, to about 7 points at 2,400 Deltas. Raises ValueError for an sd or margin that is
    not above 0, or counts below 1."""
    curve = _curve(*_key(effect, sd, design, design.pairs))
    return curve[-1] if curve else 0.0


def pairs_for_power(effect: float, sd: float, design: PowerDesign, *, power: float = 0.5) -> int | None:
    """Return the fewest Deltas, in whole blocks, that promote with this power; None above 240. Raises as
    power."""
    curve = _curve(*_key(effect, sd, design, LARGEST_PAIRS))
    for block, share in enumerate(curve, start=1):
        if share >= power:
            return block * design.pairs_per_block
    return None


_Key = tuple[float, int, int, float, int, tuple[float, ...]]


def _key(effect: float, sd: float, design: PowerDesign, pairs: int) -> _Key:
    """Return the arguments in units of the sd, rounded, so that noise in them does not cost a new
    simulation."""
    if pairs < 1 or design.pairs_per_block < 1:
        raise ValueError(
            f"power: {pairs} pairs in blocks of {design.pairs_per_block}, both must be at least 1"
        )
    if not 0.0 < design.alpha < 1.0:
        raise ValueError(f"alpha: {design.alpha} is not between 0 and 1")
    for value, noise in ((effect - design.dmin, sd), *design.guardrails):
        if not (math.isfinite(value) and math.isfinite(noise) and noise > 0.0):
            raise ValueError(f"power: effect {value} with sd {noise}, both must be finite and the sd above 0")
    margins = tuple(_rounded(margin / noise) for margin, noise in design.guardrails)
    return (
        _rounded((effect - design.dmin) / sd),
        pairs,
        design.pairs_per_block,
        design.alpha,
        design.min_pairs,
        margins,
    )


def _rounded(ratio: float) -> float:
    """Return a ratio rounded to two digits after the point, at most 10 either way: beyond, power is 0 or
    1."""
    return round(min(max(ratio, -10.0), 10.0), 2)


@functools.lru_cache(maxsize=256)
def _curve(
    effect: float,
    pairs: int,
    pairs_per_block: int,
    alpha: float,
    min_pairs: int,
    margins: tuple[float, ...],
) -> tuple[float, ...]:
    """Return the share of runs promoted by the end of each block, effects in units of the sd."""
    blocks = pairs // pairs_per_block
    rng = np.random.default_rng(SEED)
    runs = max(FEWEST_RUNS, min(RUNS, RUNS * LARGEST_PAIRS // pairs))
    promoted = np.zeros(runs, dtype=bool)
    streams = [_Stream(effect, runs), *(_Stream(margin, runs) for margin in margins)]
    recent: list[NDArray[np.float32]] = []
    shares: list[float] = []
    for block in range(1, blocks + 1):
        for _ in range(pairs_per_block):
            for stream in streams:
                stream.add(rng.standard_normal(len(stream.mean), dtype=np.float32))
        recent = [*recent, streams[0].take_block_sum()][-2:]
        won = np.logical_and.reduce([stream.declares(alpha) for stream in streams])
        won &= sum(recent) > 0.0
        if block * pairs_per_block >= min_pairs:
            promoted |= won
        shares.append(float(promoted.mean()))
        if promoted.all():  # and so they stay
            return (*shares, *(1.0 for _ in range(blocks - block)))
    return tuple(shares)


class _Stream:
    """Run e-processes side by side on x ~ N(effect, 1) with s0 = 1, as compare.EProcess does one by
    one."""

    def __init__(self, effect: float, runs: int) -> None:
        self.effect = np.float32(effect)
        self.n = 0
        self.mean = np.zeros(runs, dtype=np.float32)
        self.squares = np.zeros(runs, dtype=np.float32)
        self.log_products = np.zeros((len(_WEIGHTS), runs), dtype=np.float32)
        self.block_sum = np.zeros(runs, dtype=np.float32)

    def add(self, noise: NDArray[np.float32]) -> None:
        x = noise + self.effect
        scale = np.sqrt((2.0 + self.squares) / np.float32(2 + max(self.n - 1, 0)))
        z = np.multiply.outer(_WEIGHTS, x / scale)
        self.log_products += np.float32(math.log(2.0)) - np.log1p(np.exp(-np.clip(z, -80.0, 80.0)))
        self.n += 1
        deviation = x - self.mean
        self.mean += deviation / np.float32(self.n)
        self.squares += deviation * (x - self.mean)
        self.block_sum += x

    def take_block_sum(self) -> NDArray[np.float32]:
        taken, self.block_sum = self.block_sum, np.zeros_like(self.block_sum)
        return taken

    def declares(self, alpha: float) -> NDArray[np.bool_]:
        top = self.log_products.max(axis=0)
        log_e = top + np.log(np.exp(self.log_products - top).mean(axis=0))
        declares: NDArray[np.bool_] = (log_e >= -math.log(alpha)) & (self.mean > 0.0)
        return declares
