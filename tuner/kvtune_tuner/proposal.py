"""What a proposer is asked, and what it may answer. Refusals are values with a reason. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from kvtune_api.knobs import CacheConfig
from kvtune_api.policy import PolicySpec, Strategy
from kvtune_api.status import Trial
from kvtune_api.wire import Report
from kvtune_tuner.space import Space

MEMORY_OF_LOSSES = timedelta(hours=24)
"""For so long a loss counts against the proposer that named the candidate, unless the workload shifts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How the pool serves now, for the one proposer that asks (the proportional rule)."""

    hit_rate: float | None = None
    ttft_seconds: float | None = None
    """The quantile of the time to first token that the policy's target names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything a proposer may look at: the same request has the same answer."""

    spec: PolicySpec
    space: Space
    incumbent: CacheConfig
    reports: tuple[Report, ...]
    trials: tuple[Trial, ...]
    """Ended experiments, as status keeps them."""

    noise: float | None
    """Sd of a Delta of the objective (s0); None before any run-in."""

    seed: int
    now: datetime
    """Decides only which losses are over 24 h old."""

    service: Service | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that is worth an experiment, who names it and why."""

    config: CacheConfig
    strategy: Strategy | Literal["User"]
    """Who proposes it; User where somebody asked for this very configuration."""

    why: str
    """One sentence with numbers, at most 512 characters."""

    predicted_gain: float | None = None
    """Predicted objective of the candidate minus that of the incumbent; None where nobody predicts."""

    predicted_objective: float | None = None
    max_pairs: int | None = None
    """Fewer Deltas than the policy's maxPairs after which to give up; None: the policy's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToTry:
    """No candidate is worth an experiment now."""

    reason: str
    retry_at: datetime | None = None
    """When to ask again though nothing else has changed; None: when the workload or the policy has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAvailable:
    """A proposer lacks what it works from; another one may do."""

    reason: str
