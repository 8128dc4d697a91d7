"""Rules of WorkloadAware: its weights and constants as fields, and presets for the published workloads.

The constants are those of the article whose policy this is (systems.md, section 3). It publishes a rate of
reuse for chat (to-C: .15 per minute, 80 % of reuses within 10 min) and for services (to-B: 80 % within 10 s,
that is .16 per second).
"""

from dataclasses import dataclass, fields
from math import isnan
from typing import Final

P_REUSE_WEIGHT: Final = 0
SPATIAL_WEIGHT: Final = 1
LIFE_WEIGHT: Final = 2
REUSE_RATE: Final = 3
REUSE_SHARE: Final = 4
LONGEST_WINDOW: Final = 5
LONG_CONTEXT: Final = 6
LONG_CONTEXT_FACTOR: Final = 7
BLOCK_TOKENS: Final = 8
HOUR_PHASE: Final = 9
RELAX_SPAN: Final = 10
RELAX_FACTOR: Final = 11
TOPIC_ANSWERS: Final = 12
TOPIC_GAP: Final = 13
SAMPLED_OF: Final = 14
HORIZON: Final = 15
PRIOR_WEIGHT: Final = 16
MEMORY: Final = 17
POOR_FIT: Final = 18
RESCORE_TOUCHES: Final = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRules:
    """Constants of WorkloadAware, in the order of the slots that its functions read.

    Raises ValueError naming the field for numbers outside their limits.
    """

    p_reuse_weight: float = 0.5
    spatial_weight: float = 0.3
    life_weight: float = 0.2

    reuse_rate_per_second: float = (0.15 / 60 * 0.16) ** 0.5
    """Rate of reuse that a class starts from; the geometric mean of the two published ones is neutral."""

    reuse_share: float = 0.5
    """Share of accesses that are followed by a reuse, that a class starts from. Not published: even odds."""

    longest_window_seconds: float = 300.0
    """The window of life is two mean reuse intervals, at most this long."""

    long_context_tokens: float = 512.0
    long_context_factor: float = 1.2
    """The spatial score of contexts over so many tokens is raised by this factor, up to 1."""

    block_tokens: float = 16.0
    """Tokens of a block, where a request does not say how long its prompt is. vLLM's default."""

    hour_phase_seconds: float = -1.0
    """Seconds past the full hour where the caller's clock is 0; -1: not known, and no window is relaxed."""

    relax_span_seconds: float = 300.0
    relax_factor: float = 2.0
    """For so long after the full hour the window is longer by this factor. Not published."""

    topic_answers: float = 0.0
    topic_gap_seconds: float = 15.0
    """A session has switched its topic when so many answers came each within the gap of the one before;
    0 answers: only where the caller says so. The article's 3 are chat's: agents' answers always come fast."""

    sampled_of: float = 16.0
    """Reuse is learnt from one block of so many, chosen by hash."""

    horizon_seconds: float = 300.0
    """A block idle for longer counts as not reused: as long as the longest window."""

    prior_weight: float = 8.0
    """What a class starts from counts as much as so many sampled accesses."""

    memory: float = 4096.0
    """A class forgets half of what it has learnt each time that it has learnt from so many accesses."""

    poor_fit_distance: float = 0.15
    """Where the largest distance of the exponential to the observed distribution is above this one, the
    histogram is used. Chat is within .12 of it, agents are at .27 to .34 (cache.md)."""

    rescore_touches: float = 256.0
    """Head scores are worked out again after so many accesses (cache.md)."""

    def __post_init__(self) -> None:
        """Refuse what no rule can be."""
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = _LOWEST.get(field.name, 0.0)
            if isnan(value) or value < lowest or value == float("inf"):
                raise ValueError(f"{field.name}: {value} is not a number of at least {lowest:g}")
        if self.reuse_rate_per_second == 0:
            raise ValueError("reuse_rate_per_second: 0 is not above 0")
        if self.reuse_share > 1:
            raise ValueError(f"reuse_share: {self.reuse_share} is more than 1")

    def settings(self) -> list[float]:
        """Give the numbers by their slots."""
        return [float(getattr(self, field.name)) for field in fields(self)]


_LOWEST = {
    "longest_window_seconds": 1e-3,
    "block_tokens": 1.0,
    "hour_phase_seconds": -1.0,
    "relax_factor": 1.0,
    "sampled_of": 1.0,
    "horizon_seconds": 1e-3,
    "prior_weight": 1e-3,
    "memory": 64.0,
    "rescore_touches": 1.0,
}

NEUTRAL: Final = WorkloadRules()
TO_C: Final = WorkloadRules(reuse_rate_per_second=0.15 / 60, topic_answers=3)
TO_B: Final = WorkloadRules(reuse_rate_per_second=0.16)
