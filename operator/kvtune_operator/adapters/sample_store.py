"""Samples that were fetched, so that a moment which ticks ask for again is not asked of Prometheus again.
Pure.

Of every agent one unbroken stretch of time is known: what lies in it is all that there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvtune_operator.adapters.prometheus_samples import Sample

KEPT_IN_ALL = 40_000
"""Of all agents together; some 50 MB with a histogram in each."""

KEPT_AT_MOST = 512
KEPT_AT_LEAST = 8


@dataclass(slots=True)
class _Known:
    since: float
    until: float
    samples: list[Sample] = field(default_factory=list)


class SampleStore:
    """The newest samples of every agent."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._seen_at: dict[str, float] = {}
        self._kept = KEPT_AT_MOST

    def keep(self, agents: Sequence[str]) -> None:
        """Forget all agents but these."""
        self._known = {agent: self._known[agent] for agent in agents if agent in self._known}
        self._seen_at = {agent: at for agent, at in self._seen_at.items() if agent in self._known}
        self._kept = min(KEPT_AT_MOST, max(KEPT_AT_LEAST, KEPT_IN_ALL // max(1, len(agents))))

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def add(self, agent: str, samples: Sequence[Sample], *, since: float, until: float) -> None:
        """Add all samples between two times: in one piece with what is known, or in its place."""
        if samples:
            self._seen_at[agent] = samples[-1].at
        known = self._known.get(agent)
        if known is None or since > known.until or until < known.until:
            self._known[agent] = known = _Known(since, until, list(samples))
        else:
            new = [sample for sample in samples if sample.scraped_at > known.until]
            known.samples, known.until = known.samples + new, until
        if len(known.samples) > self._kept:
            known.since = known.samples[-self._kept - 1].scraped_at
            known.samples = known.samples[-self._kept :]

    def between(self, agent: str, since: float, until: float) -> list[Sample] | None:
        """All samples between two times; None where they are not all known."""
        known = self._known.get(agent)
        if known is None or since < known.since or until > known.until:
            return None
        return [sample for sample in known.samples if since < sample.scraped_at <= until]

    def newest_at(self, agent: str) -> float | None:
        """The moment of the newest sample that was ever seen."""
        return self._seen_at.get(agent)
