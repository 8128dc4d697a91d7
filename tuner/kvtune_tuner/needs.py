"""Which moments' counters the next step wants. The shell reads these, and nothing else, before it plans."""

from collections.abc import Mapping

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Phase
from kvtune_api.policy import PolicySpec
from kvtune_api.wire import Counters
from kvtune_tuner.draft import grid_up
from kvtune_tuner.guard import BreakerLimits, breaker_spans
from kvtune_tuner.phases import EXPOSED
from kvtune_tuner.sli import Missing

FRESH_SECONDS = 30.0
"""An agent whose newest sample is so much older than another's does not hold back the pool."""


def exact(experiment: KVCacheExperiment | None, now_s: float) -> tuple[float, ...]:
    """Window bounds that are due: these very moments, for they are in the ledger (engine seconds)."""
    if experiment is None or experiment.status.outcome is not None:
        return ()
    status = experiment.status
    wanted: set[float] = set()
    if status.epoch and status.phase in (Phase.RUN_IN, Phase.MEASURING) and now_s >= status.epoch.measure_to:
        middle = half(status.epoch.measure_from, status.epoch.measure_to)
        wanted |= {status.epoch.measure_from, middle, status.epoch.measure_to}
    if status.watch and status.phase is Phase.WATCHING:
        due = [w for w in status.watch.windows[len(status.watch.differences) :] if now_s >= w[1]]
        wanted |= {bound for window in due for bound in window}
    return tuple(sorted(wanted))


def half(start: float, end: float) -> float:
    """The grid time nearest to the middle of a window."""
    return start + round((end - start) / 10.0) * 5.0


def newest_moment(newest: Mapping[str, Counters | Missing]) -> float | None:
    """The newest moment of which every agent with fresh samples has one, engine seconds.

    An agent whose counters stand still must not stop the clock of the breaker for all others.
    """
    times = [sample.at for sample in newest.values() if isinstance(sample, Counters)]
    return min((at for at in times if at >= max(times) - FRESH_SECONDS), default=None)


def recent(spec: PolicySpec, experiment: KVCacheExperiment | None, newest_s: float) -> tuple[float, ...]:
    """Moments before the newest sample: for the SLIs, for the breaker, and to see that traffic flows."""
    wanted = {newest_s, newest_s - spec.metrics.span.seconds, newest_s - 60.0}
    since = exposed_since(experiment)
    if since is not None and (spans := breaker_spans(newest_s, since, BreakerLimits())):
        wanted |= {spans.long_from_s, spans.short_from_s}
    return tuple(sorted(wanted))


def exposed_since(experiment: KVCacheExperiment | None) -> float | None:
    """Since when the present candidate agents run the candidate; None while none does."""
    if experiment is None or experiment.status.phase not in EXPOSED:
        return None
    status = experiment.status
    if status.phase in (Phase.PROMOTING, Phase.WATCHING):
        return status.promoting_since
    if status.phase is Phase.WASHOUT:  # a washout that begins again does not hide what ran before
        return grid_up(status.phase_since)
    return status.epoch.switch_at if status.epoch else None
