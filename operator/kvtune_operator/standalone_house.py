"""What a standalone control plane allows its one policy: no limits, and the sources that the policy names."""

from datetime import datetime

from kvtune_api.errors import Problem, SpecError
from kvtune_api.policy import KVCachePolicy, MetricsSource
from kvtune_operator.ports import House, Sources
from kvtune_operator.sources import SourcesOf
from kvtune_tuner.model import Limits


class StandaloneHouse(House):
    """Sources by the policy's own settings. Prometheus and Pyroscope keep wall time: no scaled clock for
    them."""

    def __init__(self, sources: SourcesOf, *, speed: float) -> None:
        self._sources = sources
        self._speed = speed

    def limits(self, policy: KVCachePolicy, now: datetime) -> Limits:
        """No limits."""
        return Limits()

    def sources(self, policy: KVCachePolicy) -> Sources:
        """The sources of the policy; raise `SpecError` naming the field that keeps them from being used."""
        asked = policy.spec.metrics
        prometheus = asked.source is not MetricsSource.SCRAPE and asked.prometheus.address is not None
        if self._speed != 1.0:
            text = f"keeps wall time, so it cannot be used with a clock of speed {self._speed:g}"
            if prometheus:
                raise SpecError(Problem("spec.metrics.prometheus.address", f"a Prometheus {text}"))
            if asked.pyroscope.address is not None:
                raise SpecError(Problem("spec.metrics.pyroscope.address", f"a Pyroscope {text}"))
        return self._sources.sources(policy)
