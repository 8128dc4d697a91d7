"""Hit rates against capacity for every policy: LRU exact, others simulated whole or on samples.

On samples a policy is measured by its gap to LRU on the same sample, which is added to the exact rate of LRU
(a control variate): what a sample gets wrong for all policies alike, such as a hot block that it drew or did
not, cancels. The gap is the mean over samples of several salts; its error is the standard error of that mean.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

import numpy as np

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.sampling import Sample, sampled
from kvtune_lab.capacity.stack import LruCurve, lru_curve
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator, way_for

WHOLE_REQUESTS = frozenset({"ReuseAware", "WorkloadAware"})
"""Policies that look at a request's length and at its new blocks, which a sample thins out: never sampled."""

WHOLE_REFERENCES_MAX = 2_000_000
SAMPLE_REFERENCES = 1_000_000
"""Traces of more block references than the first are sampled down to about the second."""

Progress = Callable[[int, int], None]
"""Told how many simulations of how many are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCurve:
    """Hit rates of tokens in the last half, one for each capacity."""

    policy: Policy
    rates: tuple[float, ...]
    errors: tuple[float, ...]
    """Standard errors from sampling, 0 where nothing was sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How samples are drawn; a rate of 1 samples nothing."""

    rate: float
    salts: tuple[int, ...] = (1, 2, 3, 4)

    def __post_init__(self) -> None:
        """Refuse what gives no error."""
        if not 0 < self.rate <= 1:
            raise ValueError(f"sample: {self.rate} is not within (0, 1]")
        if len(set(self.salts)) < 2:
            raise ValueError(f"salts: {len(set(self.salts))} give no error, 2 are the least")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """All policies at the same capacities."""

    capacities: tuple[int, ...]
    lru: LruCurve
    policies: tuple[PolicyCurve, ...]
    sampling: Sampling
    control: tuple[float, ...]
    """What samples of LRU are off by from its exact rate, on average: the error without the control."""


def sampling_for(block_references: int) -> Sampling:
    """Choose by the size of a trace: all of a small one."""
    whole = block_references <= WHOLE_REFERENCES_MAX
    return Sampling(rate=1.0 if whole else SAMPLE_REFERENCES / block_references)


def policy_curves(
    requests: Requests,
    policies: Sequence[Policy],
    capacities: Sequence[int],
    *,
    sampling: Sampling,
    progress: Progress = lambda _done, _of: None,
) -> Curves:
    """Measure policies at capacities in blocks; raises ValueError for a trace without a chain of blocks."""
    lru = lru_curve(requests)
    others = [policy for policy in policies if policy is not Policy.LRU]
    whole = [policy for policy in others if sampling.rate == 1 or policy.value in WHOLE_REQUESTS]
    thin = [policy for policy in others if policy not in whole]
    salts = sampling.salts if thin else ()
    ticks = _ticks(len(capacities) * (len(whole) + len(thin) * len(salts)), progress)
    rates = {(Policy.LRU, 0): [lru.rate(capacity) for capacity in capacities]}
    way = way_for(len(requests.blocks) * len(whole) * len(capacities))
    for policy in whole:  # each with a simulator of its own, so that only one empty cache is kept at a time
        rates[policy, 0] = _simulated(Simulator(requests, way), policy, capacities, ticks)
    control = []
    for salt in salts:
        sample = sampled(requests, rate=sampling.rate, salt=salt)
        control.append(_gaps(sample, thin, capacities, rates, ticks))
    return Curves(
        capacities=tuple(capacities),
        lru=lru,
        policies=tuple(
            _curve(policy, rates, sampling.salts if policy in thin else ()) for policy in policies
        ),
        sampling=sampling,
        control=tuple(np.abs(control).mean(axis=0).tolist()) if control else (0.0,) * len(capacities),
    )


def _gaps(
    sample: Sample,
    policies: Sequence[Policy],
    capacities: Sequence[int],
    rates: dict[tuple[Policy, int], list[float]],
    ticks: Iterator[None],
) -> list[float]:
    """Add each policy's rates by this sample to `rates`; what the sample's LRU is off by."""
    scaled = [sample.scaled(capacity) for capacity in capacities]
    curve = lru_curve(sample.requests)
    exact, found = rates[Policy.LRU, 0], [curve.rate(capacity) for capacity in scaled]
    work = len(sample.requests.blocks) * len(policies) * len(capacities)
    simulator = Simulator(sample.requests, way_for(work))
    for policy in policies:
        simulated = _simulated(simulator, policy, scaled, ticks)
        rates[policy, sample.salt] = [
            min(1.0, max(0.0, base + rate - lru))
            for base, rate, lru in zip(exact, simulated, found, strict=True)
        ]
    return [lru - base for base, lru in zip(exact, found, strict=True)]


def _simulated(
    simulator: Simulator, policy: Policy, capacities: Sequence[int], ticks: Iterator[None]
) -> list[float]:
    rates = []
    for capacity in capacities:
        done = simulator.simulate(Setup(policy=policy, capacity_blocks=capacity))
        rates.append(done.token_hit_rate_last_half)
        next(ticks)
    return rates


def _curve(policy: Policy, rates: dict[tuple[Policy, int], list[float]], salts: Sequence[int]) -> PolicyCurve:
    if not salts:
        exact = tuple(rates[policy, 0])
        return PolicyCurve(policy=policy, rates=exact, errors=(0.0,) * len(exact))
    columns = list(zip(*(rates[policy, salt] for salt in salts), strict=True))
    return PolicyCurve(
        policy=policy,
        rates=tuple(fmean(column) for column in columns),
        errors=tuple(stdev(column) / sqrt(len(salts)) for column in columns),
    )


def _ticks(total: int, progress: Progress) -> Iterator[None]:
    """Tell of one more simulation at each step."""
    for done in range(1, total + 1):
        progress(done, total)
        yield
