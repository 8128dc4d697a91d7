"""Compare two arms by a one-sided sign e-process, valid at every look.

Called by plan (live) and replay (offline); both feed the Deltas of whole blocks in the recorded order. Pure:
no clock, no randomness, no I/O. The state has constant size, so a ledger may drop old rows and keep a
checkpoint.

The test is of symmetry about zero, not of the mean: many small gains with rare large losses, mean zero, are
declared in about 30 % of runs. The guards, the watch and the holdback are there for that; see
docs/experiments.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

LAMBDAS: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
S0_FLOOR = 0.001
MAX_ABS_X = 1e100
"""Largest |x| accepted, so that no square or product in the state can overflow."""
_LOG_2 = math.log(2.0)
_LOG_LARGEST_FLOAT = math.log(1.7e308)


@dataclass(frozen=True, slots=True, kw_only=True)
class EProcess:
    """Hold the state of one one-sided test that x is symmetric about zero or below.

    E is the mean over lambda of the product of 2 sigmoid(2 lambda x_j / s_j), where s_j uses only the past:
    s_j^2 = (2 s0^2 + Q) / (2 + max(n - 1, 0)), with Q the squared deviations of the n past x from their mean.
    P(E ever >= 1/alpha) <= alpha by Ville's inequality (arXiv 2208.08925, 2512.04366). Pairs that share one
    coin must be given as one x, their mean: one by one they give 23 % false positives.
    A missing x is not added.
    """

    s0: float
    n: int = 0
    m: float = 0.0
    q: float = 0.0
    sum_x: float = 0.0
    log_products: tuple[float, ...] = (0.0,) * len(LAMBDAS)
    log_e_max: float = 0.0
    """Largest log E at the end of a block so far, at least 0."""

    @classmethod
    def start(cls, s0: float, *, floor: float = S0_FLOOR) -> EProcess:
        """Return an empty test whose scale starts at s0, or at the floor if s0 is smaller.

        Raises ValueError for a negative or non-finite s0, or a floor that is not a positive number.
        """
        if not (math.isfinite(floor) and floor > 0.0):
            raise ValueError(f"floor: {floor} is not a positive number")
        if not (math.isfinite(s0) and s0 >= 0.0):
            raise ValueError(f"s0: {s0} is not a number of at least 0")
        return cls(s0=max(s0, floor))

    @property
    def scale(self) -> float:
        """Return s of the next x, computed from the past only."""
        return math.sqrt((2.0 * self.s0**2 + self.q) / (2.0 + max(self.n - 1, 0)))

    def add(self, x: float) -> EProcess:
        """Return the state after one more x. Raises ValueError for NaN, infinity and |x| above 1e100."""
        if not math.isfinite(x) or abs(x) > MAX_ABS_X:
            raise ValueError(f"x: {x} is not a finite number of at most {MAX_ABS_X:g} in size")
        ratio = x / self.scale
        deviation = x - self.m
        m = self.m + deviation / (self.n + 1)
        return replace(
            self,
            n=self.n + 1,
            m=m,
            q=self.q + deviation * (x - m),
            sum_x=self.sum_x + x,
            log_products=tuple(
                product + _log_factor(2.0 * weight * ratio)
                for product, weight in zip(self.log_products, LAMBDAS, strict=True)
            ),
        )

    def end_block(self) -> EProcess:
        """Return the state with this moment counted as a look, which only the p-value remembers."""
        return replace(self, log_e_max=max(self.log_e_max, self.log_e))

    @property
    def log_e(self) -> float:
        """Return the natural logarithm of E."""
        top = max(self.log_products)
        return top + math.log(sum(math.exp(p - top) for p in self.log_products) / len(self.log_products))

    @property
    def e_value(self) -> float:
        """Return E, capped at the largest float so that it is always finite."""
        return math.exp(min(self.log_e, _LOG_LARGEST_FLOAT))

    @property
    def p_value(self) -> float:
        """Return min 1/E over all block ends, an always valid p-value in [0, 1]."""
        return math.exp(-self.log_e_max)

    @property
    def mean(self) -> float:
        """Return the mean of all x, 0 while there is none."""
        return self.sum_x / self.n if self.n else 0.0

    @property
    def sd(self) -> float | None:
        """Return the sample standard deviation of the x, None below two of them."""
        return math.sqrt(max(self.q, 0.0) / (self.n - 1)) if self.n >= 2 else None


def _log_factor(z: float) -> float:
    """Return log(2 sigmoid(z)) without overflow."""
    if z >= 0.0:
        return _LOG_2 - math.log1p(math.exp(-z))
    return _LOG_2 + z - math.log1p(math.exp(z))


def declared(test: EProcess, alpha: float, *, recent_mean: float | None = None) -> bool:
    """Say whether the test declares now: E >= 1/alpha and the mean of its x is above zero.

    Superiority also passes the mean of the last two blocks, which must be above zero too.
    Raises ValueError unless 0 < alpha < 1.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha: {alpha} is not between 0 and 1")
    crossed = test.log_e >= -math.log(alpha)
    return crossed and test.mean > 0.0 and (recent_mean is None or recent_mean > 0.0)


def s0_from_run_in(deltas: Sequence[float]) -> float:
    """Return sqrt(mean x^2) of the Deltas of a run-in with equal configurations, whose true mean is zero.

    Raises ValueError when there is no Delta.
    """
    if not deltas:
        raise ValueError("run-in: 0 Deltas are fewer than 1")
    return math.sqrt(math.fsum(x * x for x in deltas) / len(deltas))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDelta:
    """Hold what one pair says in one block: candidate minus control, mean over both epochs, + is better.

    None and an absent guardrail mean missing: no factor is multiplied, which is not a Delta of zero.
    """

    objective: float | None
    guardrails: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """Name a guardrail with its margin (share of requests, above 0) and the s0 of its Deltas."""

    name: str
    margin: float
    s0: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailTests:
    """Hold both tests of one guardrail: non-inferior (x = Delta + margin) and harm (x = -Delta - margin)."""

    name: str
    margin: float
    noninferior: EProcess
    harm: EProcess

    def add(self, delta: float) -> GuardrailTests:
        """Return the tests after one more Delta of this guardrail."""
        return replace(
            self,
            noninferior=self.noninferior.add(delta + self.margin),
            harm=self.harm.add(-delta - self.margin),
        )

    def end_block(self) -> GuardrailTests:
        """Return the tests after a look."""
        return replace(self, noninferior=self.noninferior.end_block(), harm=self.harm.end_block())


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Say which tests declare at a block's end."""

    superior: bool
    harm: bool
    noninferior: tuple[str, ...]
    guardrail_harms: tuple[str, ...]
    undecided_guardrails: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """Hold all tests of one experiment: superiority and harm on the objective, two tests per guardrail."""

    __test__: ClassVar[bool] = False  # pytest collects imported classes whose names start with Test

    dmin: float
    superior: EProcess
    harm: EProcess
    guardrails: tuple[GuardrailTests, ...]
    blocks: int = 0
    recent_blocks: tuple[tuple[float, int], ...] = ()
    """Sum and number of the superiority x of the last two blocks that had any."""

    @classmethod
    def start(
        cls, s0: float, *, dmin: float = 0.0, guardrails: Sequence[Guardrail] = (), floor: float = S0_FLOOR
    ) -> Tests:
        """Return empty tests. Raises ValueError for a negative dmin, a margin not above 0, a name twice."""
        if not (math.isfinite(dmin) and dmin >= 0.0):
            raise ValueError(f"dmin: {dmin} is not a number of at least 0")
        names = [guardrail.name for guardrail in guardrails]
        if len(set(names)) < len(names):
            raise ValueError(f"guardrails: a name occurs twice in {names}")
        for guardrail in guardrails:
            if not (math.isfinite(guardrail.margin) and guardrail.margin > 0.0):
                raise ValueError(f"guardrails.{guardrail.name}.margin: {guardrail.margin} is not above 0")
        return cls(
            dmin=dmin,
            superior=EProcess.start(s0, floor=floor),
            harm=EProcess.start(s0, floor=floor),
            guardrails=tuple(
                GuardrailTests(
                    name=guardrail.name,
                    margin=guardrail.margin,
                    noninferior=EProcess.start(guardrail.s0, floor=floor),
                    harm=EProcess.start(guardrail.s0, floor=floor),
                )
                for guardrail in guardrails
            ),
        )

    @property
    def n(self) -> int:
        """Return the number of Deltas of the objective seen."""
        return self.superior.n

    @property
    def recent_mean(self) -> float | None:
        """Return the mean superiority x over the last two blocks that had any, None before the first."""
        count = sum(number for _, number in self.recent_blocks)
        return sum(total for total, _ in self.recent_blocks) / count if count else None

    def add_block(self, deltas: Sequence[PairDelta]) -> Tests:
        """Return the tests after one whole block, its pairs in recorded order.

        Raises ValueError for a Delta that is not finite or a guardrail that this experiment does not have.
        """
        superior, harm, guardrails = self.superior, self.harm, {test.name: test for test in self.guardrails}
        for delta in deltas:
            if delta.objective is not None:
                superior = superior.add(delta.objective - self.dmin)
                harm = harm.add(-delta.objective)
            for name, value in delta.guardrails.items():
                if name not in guardrails:
                    raise ValueError(f"guardrails.{name}: not one of {sorted(guardrails)}")
                if value is not None:
                    guardrails[name] = guardrails[name].add(value)
        added = superior.n - self.superior.n
        block = ((superior.sum_x - self.superior.sum_x, added),) if added else ()
        return replace(
            self,
            superior=superior.end_block(),
            harm=harm.end_block(),
            guardrails=tuple(test.end_block() for test in guardrails.values()),
            blocks=self.blocks + 1,
            recent_blocks=(*self.recent_blocks, *block)[-2:],
        )

    def declared(self, alpha: float) -> Declared:
        """Return which tests declare now, at a block's end. Raises ValueError unless 0 < alpha < 1."""
        noninferior = tuple(test.name for test in self.guardrails if declared(test.noninferior, alpha))
        return Declared(
            superior=declared(self.superior, alpha, recent_mean=self.recent_mean),
            harm=declared(self.harm, alpha),
            noninferior=noninferior,
            guardrail_harms=tuple(test.name for test in self.guardrails if declared(test.harm, alpha)),
            undecided_guardrails=tuple(test.name for test in self.guardrails if test.name not in noninferior),
        )
