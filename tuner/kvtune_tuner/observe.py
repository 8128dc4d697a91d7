"""Describe the pool as it is: which agents can take part, and the SLIs against their targets.

Pure. Sets conditions and SLIs in the draft; decides nothing about experiments.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from kvtune_api.names import ConditionType, Reason
from kvtune_api.policy import PolicySpec
from kvtune_api.status import Met, Sli, Truth
from kvtune_api.wire import Counters
from kvtune_tuner.draft import Draft, condition, runs, window, with_condition, with_status, with_warning
from kvtune_tuner.effect import hit_rate
from kvtune_tuner.fallback import with_fallbacks
from kvtune_tuner.needs import newest_moment
from kvtune_tuner.phases import EXPOSED
from kvtune_tuner.pool import described
from kvtune_tuner.scoring import HIT_RATE, TTFT
from kvtune_tuner.shown import shown
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts, pooled
from kvtune_tuner.ttft import Standing, judge_target, share_under

SMALLEST_MOVE = 0.01
"""An SLI in status follows the measurement in steps of a point."""

_MET = {
    Standing.MET: Met.MET,
    Standing.VIOLATED: Met.VIOLATED,
    Standing.RESOLUTION_INSUFFICIENT: Met.UNKNOWN,
}


def observed(draft: Draft) -> Draft:
    """Set agents' figures, their conditions, the SLIs and theirs."""
    draft = with_status(
        draft,
        replace(draft.status, agents=len(draft.seen.agents), agents_ready=len(draft.reports)),
    )
    draft = replace(draft, recent=recent_windows(draft))
    found = pool_window(draft)
    return with_fallbacks(_targets(_metrics(described(draft), found), found))


def recent_windows(draft: Draft) -> Mapping[str, WindowCounts | Missing]:
    """Every answering agent's window over the span of the SLIs."""
    if draft.recent is not None:
        return draft.recent
    newest = newest_moment(draft.seen.newest, now_s=draft.now_s, tick_s=draft.ticks)
    if newest is None:
        reason = next((m for m in draft.seen.newest.values() if isinstance(m, Missing)), None)
        missing = reason or Missing(reason=MissingReason.NO_DATA, message=_no_sample(draft))
        return dict.fromkeys(draft.names, missing)
    span = draft.seen.policy.spec.metrics.span.seconds
    return {name: window(draft, name, newest - span, newest) for name in draft.names}


def _no_sample(draft: Draft) -> str:
    if any(isinstance(sample, Counters) for sample in draft.seen.newest.values()):
        return "every sample is ahead of this machine's clock by more than two ticks: the clocks differ"
    return "no agent gave a sample"


def pool_window(draft: Draft) -> WindowCounts | Missing:
    """The pool's window over the span of the SLIs: agents with data, together."""
    windows = recent_windows(draft)
    usable = [w for w in windows.values() if not isinstance(w, Missing) and w.requests]
    if usable:
        return pooled(usable)
    missing = [w for w in windows.values() if isinstance(w, Missing)]
    if missing:
        return missing[0]
    return Missing(reason=MissingReason.NO_TRAFFIC, message="no request was served in the last span")


def _metrics(draft: Draft, found: WindowCounts | Missing) -> Draft:
    kind = ConditionType.METRICS_AVAILABLE
    if not isinstance(found, Missing):
        message = f"every SLI window of {draft.seen.policy.spec.metrics.span} has requests"
        return with_condition(draft, kind, Truth.TRUE, Reason.AVAILABLE, message)
    no_traffic = found.reason is MissingReason.NO_TRAFFIC
    reason = Reason.NO_TRAFFIC if no_traffic else Reason.NO_DATA
    message, old = f"{found.reason}: {found.message}", condition(draft.status, kind)
    if old is not None and old.status is not Truth.FALSE:
        draft = with_warning(draft, reason, message)  # not at the first look: agents that start have none yet
    elif old is not None and old.reason is reason and _same_but_for_numbers(old.message, message):
        message = old.message  # the time in it moves with every tick
    return with_condition(draft, kind, Truth.FALSE, reason, message)


def _same_but_for_numbers(old: str, new: str) -> bool:
    return re.sub(r"[\d.e+]+", "0", old) == re.sub(r"[\d.e+]+", "0", new)


def _targets(draft: Draft, found: WindowCounts | Missing) -> Draft:
    spec = draft.seen.policy.spec
    slis = (_ttft(spec, found), _hit_rate(spec, found))
    settled = tuple(_settled(sli, draft.status.slis) for sli in slis if sli is not None)
    draft = with_status(draft, replace(draft.status, slis=settled, shown=shown(spec, settled)))
    asked = [sli for sli in draft.status.slis if sli.target is not None]
    kind = ConditionType.TARGETS_MET
    message = "; ".join(_sentence(sli) for sli in asked)
    if any(sli.met is Met.VIOLATED for sli in asked):
        return with_condition(draft, kind, Truth.FALSE, Reason.VIOLATED, message)
    unknown = [sli for sli in asked if sli.met is Met.UNKNOWN]
    if unknown:
        insufficient = any(sli.reason == Reason.RESOLUTION_INSUFFICIENT for sli in unknown)
        reason = Reason.RESOLUTION_INSUFFICIENT if insufficient else Reason.UNKNOWN
        return with_condition(draft, kind, Truth.UNKNOWN, reason, message)
    return with_condition(draft, kind, Truth.TRUE, Reason.MET, message)


def _settled(new: Sli, known: tuple[Sli, ...]) -> Sli:
    """The SLI as status shows it: small moves are not written, so that an idle policy causes no writes.

    A value that wavers about its target changes what status says of it when it is half a point beyond.
    """
    old = next((sli for sli in known if sli.name == new.name), None)
    if old is None or old.target != new.target:
        return new
    if old.value is None or new.value is None:
        same = old.value is new.value and (old.met, old.reason) == (new.met, new.reason)
        return old if same else new
    return old if _is_near(old, new) else new


def _is_near(old: Sli, new: Sli) -> bool:
    moves = [(a, b) for a, b in zip(_bounds(old), _bounds(new), strict=True) if a is not None]
    if any(b is None or abs(a - b) >= SMALLEST_MOVE for a, b in moves):
        return False
    if (old.met, old.reason) == (new.met, new.reason) or new.target is None:
        return (old.met, old.reason) == (new.met, new.reason)
    apart = [abs(bound - new.target) for bound in _bounds(new) if bound is not None]
    return min(apart) < SMALLEST_MOVE / 2


def _bounds(sli: Sli) -> tuple[float | None, float | None, float | None]:
    return sli.value, sli.low, sli.high


def _sentence(sli: Sli) -> str:
    value = "not measured" if sli.value is None else f"{sli.value:.3f}"
    return f"{sli.name} {value}, target {sli.target}" + (f" ({sli.message})" if sli.message else "")


def _ttft(spec: PolicySpec, found: WindowCounts | Missing) -> Sli | None:
    target = spec.targets.ttft
    if target is None:
        return None
    if isinstance(found, Missing):
        return Sli(name=TTFT, target=target.quantile, reason=found.reason, message=found.message[:500])
    share = share_under(found, target.limit.seconds)
    if isinstance(share, Missing):
        return Sli(name=TTFT, target=target.quantile, reason=share.reason, message=share.message[:500])
    report = judge_target(share, target.quantile)
    unknown = report.standing is Standing.RESOLUTION_INSUFFICIENT
    return Sli(
        name=TTFT,
        value=share.below,
        low=share.below,
        high=share.above,
        target=target.quantile,
        met=_MET[report.standing],
        reason=Reason.RESOLUTION_INSUFFICIENT if unknown else None,
        message=report.message[:500],
    )


def _hit_rate(spec: PolicySpec, found: WindowCounts | Missing) -> Sli:
    target = spec.targets.hit_rate.min if spec.targets.hit_rate else None
    value = found if isinstance(found, Missing) else hit_rate(found)
    if isinstance(value, Missing):
        return Sli(name=HIT_RATE, target=target, reason=value.reason, message=value.message[:500])
    met = Met.UNKNOWN if target is None else (Met.MET if value >= target else Met.VIOLATED)
    return Sli(name=HIT_RATE, value=value, target=target, met=met)


def converged(draft: Draft) -> Draft:
    """Say whether every answering agent outside a candidate arm runs the incumbent."""
    incumbent = draft.status.incumbent
    kind = ConditionType.CONVERGED
    if incumbent is None:
        return with_condition(draft, kind, Truth.UNKNOWN, Reason.UNKNOWN, "no incumbent is known yet")
    off = [
        name for name, report in zip(draft.names, draft.reports, strict=True) if not runs(report, incumbent)
    ]
    exposed = draft.experiment is not None and draft.live.status.phase in EXPOSED
    if off and not exposed:
        message = f"{len(off)} agents do not run the incumbent yet: {', '.join(off[:5])}"
        return with_condition(draft, kind, Truth.FALSE, Reason.OUT_OF_SYNC, message)
    message = "agents outside a candidate arm run the incumbent"
    return with_condition(draft, kind, Truth.TRUE, Reason.IN_SYNC, message)
