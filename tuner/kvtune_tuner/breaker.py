"""Gather what the guards look at while a candidate is live, and end the experiment when one trips. Pure."""

from dataclasses import replace

from kvtune_api.evidence import Breach
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Phase, Reason
from kvtune_api.status import Truth
from kvtune_api.wire import Role
from kvtune_tuner.assign import Arm
from kvtune_tuner.draft import (
    Draft,
    condition,
    ended,
    wall,
    window,
    with_condition,
    with_record,
    with_warning,
)
from kvtune_tuner.guard import (
    ArmAgent,
    GuardInput,
    PairWindows,
    Target,
    breaker_spans,
    first_violation,
    incumbent_violates,
)
from kvtune_tuner.leavers import is_going
from kvtune_tuner.limits import BreakerLimits
from kvtune_tuner.needs import exposed_since, newest_moment
from kvtune_tuner.promote import promoted_agents
from kvtune_tuner.restarts import restarts_so_far, with_restarts
from kvtune_tuner.switching import assignment


def guarded(draft: Draft) -> Draft:
    """End the experiment at once when a guard trips. Statistics play no part here."""
    draft = with_restarts(_reachability(draft), *_arms(draft))
    seen = _guard_input(draft)
    if seen is None:
        return draft
    if seen.short:
        draft = _noted(draft, incumbent_violates(seen))
    violation = first_violation(seen)
    if violation is None:
        return draft
    breach = Breach(at=draft.now_s, check=violation.check, message=violation.message[:1000])
    draft = with_record(draft, replace(draft.live.status, breach=breach))
    draft = with_warning(draft, Reason.GUARDRAIL_TRIPPED, violation.message)
    return ended(draft, Outcome.ROLLED_BACK, OutcomeReason.BREAKER, violation.message)


def _noted(draft: Draft, text: str | None) -> Draft:
    """Say whether the incumbent violates the target itself: nothing good to return to (case 23)."""
    old = condition(draft.status, ConditionType.INCUMBENT_HEALTHY)
    if text is None:
        return draft  # said once per experiment: near the limit it would come and go with every look
    draft = with_condition(
        draft, ConditionType.INCUMBENT_HEALTHY, Truth.FALSE, Reason.INCUMBENT_VIOLATES_TARGET, text
    )
    if old is None or old.status is not Truth.FALSE:
        return with_warning(draft, Reason.INCUMBENT_VIOLATES_TARGET, text)
    return draft


def _reachability(draft: Draft) -> Draft:
    """Remember since when an agent of the experiment does not answer."""
    before = draft.live.status.unreachable_since
    arms = {name for pair in draft.live.spec.pairs for name in (pair.first, pair.second)}
    names = {name for name in arms & draft.present if not is_going(draft, name)}  # leavers end their pair
    now = {name: before.get(name, draft.now_s) for name in sorted(names) if draft.report(name) is None}
    if now == before:
        return draft
    return with_record(draft, replace(draft.live.status, unreachable_since=now))


def _guard_input(draft: Draft) -> GuardInput | None:
    since = exposed_since(draft.live)
    newest = newest_moment(draft.seen.newest, now_s=draft.now_s, tick_s=draft.ticks)
    if since is None:
        return None
    pairs = _pairs(draft)
    live = tuple(p for p in pairs if _is_exposed(draft, p[1]) and {p[1], p[2]} <= draft.present)
    settings = draft.live.spec.policy_spec
    limits = BreakerLimits(
        unreachable_s=max(3 * draft.ticks, wall(draft, settings.experiment.lease_duration.seconds))
    )
    spans = breaker_spans(newest, since, limits) if newest is not None else None
    target = settings.targets.ttft
    candidates, controls = _arms(draft)
    return GuardInput(
        candidates=tuple(_arm_agent(draft, name) for name in candidates),
        controls=tuple(_arm_agent(draft, name) for name in controls),
        long=_windows(draft, live, spans.long_from_s, spans.to_s) if spans else (),
        short=_windows(draft, live, spans.short_from_s, spans.to_s) if spans else (),
        target=Target(limit_s=target.limit.seconds, quantile=target.quantile) if target else None,
        restarts=restarts_so_far(draft),
        limits=limits,
    )


def _arms(draft: Draft) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Agents that are to run the candidate (the ramp's included), and those of the control arm.

    None that is gone or about to go: that they fall silent is the cluster's doing.
    """
    pairs = _pairs(draft)
    here = frozenset(name for name in draft.present if not is_going(draft, name))
    candidates = {candidate for _, candidate, _ in pairs if candidate in here}
    if draft.live.status.phase in (Phase.PROMOTING, Phase.WATCHING):
        candidates |= here & set(promoted_agents(draft.live, tuple(sorted(draft.present))))
    return tuple(sorted(candidates)), tuple(control for _, _, control in pairs if control in here)


def _arm_agent(draft: Draft, name: str) -> ArmAgent:
    since = draft.live.status.unreachable_since.get(name)
    return ArmAgent(name=name, unreachable_s=0.0 if since is None else max(draft.now_s - since, 1e-9))


def _pairs(draft: Draft) -> tuple[tuple[str, str, str], ...]:
    """(pair, candidate agent, control agent) as they run now."""
    record = draft.live.status
    if record.phase in (Phase.PROMOTING, Phase.WATCHING) and record.watch is not None:
        return ((f"pair {record.watch.pair + 1}", record.watch.partner, record.watch.holdback),)
    if record.epoch is None:
        return ()
    assigned = assignment(draft, record.epoch)
    return tuple(
        (
            f"pair {index + 1}",
            *(
                (pair.first, pair.second)
                if assigned[pair.first] is Arm.CANDIDATE
                else (pair.second, pair.first)
            ),
        )
        for index, pair in enumerate(draft.live.spec.pairs)
        if index not in record.epoch.left_out
    )


def _is_exposed(draft: Draft, candidate: str) -> bool:
    """Whether an agent runs the candidate or cannot say: a pair that does not must not shield others."""
    report = draft.report(candidate)
    return report is None or report.running.role is Role.CANDIDATE


def _windows(
    draft: Draft, pairs: tuple[tuple[str, str, str], ...], start: float, end: float
) -> tuple[PairWindows, ...]:
    return tuple(
        PairWindows(
            pair=name,
            candidate=window(draft, candidate, start, end),
            control=window(draft, control, start, end),
        )
        for name, candidate, control in pairs
    )
