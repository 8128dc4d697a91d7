"""Which moments' counters the next step wants. The shell reads these, and nothing else, before it plans."""

from collections.abc import Mapping

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Phase
from kvtune_api.policy import PolicySpec
from kvtune_api.wire import Counters
from kvtune_tuner.draft import grid_up
from kvtune_tuner.guard import breaker_spans
from kvtune_tuner.limits import BreakerLimits
from kvtune_tuner.phases import EXPOSED
from kvtune_tuner.sli import Missing

FRESH_SECONDS = 30.0
"""An agent whose newest sample is so much older than the pool's does not hold back the pool."""

AHEAD_TICKS = 2.0
"""An agent's clock may be so many ticks ahead of the control plane's; later samples are not believed."""


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


def profiled(experiment: KVCacheExperiment | None, now_s: float) -> tuple[tuple[float, float], ...]:
    """The measuring window that is due, for which profiles are wanted (engine seconds)."""
    if experiment is None or experiment.status.outcome is not None:
        return ()
    epoch = experiment.status.epoch
    due = epoch is not None and experiment.status.phase in (Phase.RUN_IN, Phase.MEASURING)
    if epoch is None or not due or now_s < epoch.measure_to:
        return ()
    return ((epoch.measure_from, epoch.measure_to),)


def half(start: float, end: float) -> float:
    """The grid time nearest to the middle of a window."""
    return start + round((end - start) / 10.0) * 5.0


def newest_moment(newest: Mapping[str, Counters | Missing], *, now_s: float, tick_s: float) -> float | None:
    """The newest moment that at least half of the agents with samples have reached, engine seconds.

    Those just behind it are waited for: of a moment so chosen every agent with fresh samples has one. One
    whose counters stand still does not hold the breaker back for all others, and one whose clock is ahead
    does not ask the others for what is to come: samples after the control plane's clock (now_s) by more than
    AHEAD_TICKS say nothing. None without samples.
    """
    latest = now_s + AHEAD_TICKS * tick_s
    times = sorted(s.at for s in newest.values() if isinstance(s, Counters) and s.at <= latest)
    if not times:
        return None
    reached = times[len(times) // 2]
    return min(at for at in times if at >= reached - FRESH_SECONDS)


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
