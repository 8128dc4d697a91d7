"""Decide the next step of one policy. Pure: no I/O, no clock.

The control plane calls `plan` once per tick with everything it has seen. It answers with the statuses to
write (before anything is pushed), the pushes, and events for the user. Same input, same answer; an answer
that changes nothing writes nothing.
"""

from dataclasses import replace

from kvtune_api.codec import digest
from kvtune_api.knobs import Point, point
from kvtune_api.knobs import config as config_of
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Phase, Reason
from kvtune_api.policy import Mode, PolicySpec
from kvtune_api.status import PolicyStatus, Truth
from kvtune_tuner.accept import accepted
from kvtune_tuner.begin import considered
from kvtune_tuner.breaker import guarded
from kvtune_tuner.converge import pushes
from kvtune_tuner.draft import (
    MESSAGE_LIMIT,
    Draft,
    approval_of,
    bumped,
    condition,
    ended,
    waiting,
    with_condition,
    with_record,
    with_status,
    with_warning,
)
from kvtune_tuner.epochs import progressed
from kvtune_tuner.fallback import with_restores
from kvtune_tuner.finish import recorded, restoring
from kvtune_tuner.model import Command, Plan, Seen, Verb
from kvtune_tuner.observe import converged, observed
from kvtune_tuner.permits import end_of_experiment, no_promotion
from kvtune_tuner.phases import EXPOSED, Turn
from kvtune_tuner.pool import named
from kvtune_tuner.promote import begin_promotion, promoting, watching
from kvtune_tuner.space import NoStart, live_knobs, space_of, start
from kvtune_tuner.trying import is_tried, tried


def plan(seen: Seen) -> Plan:
    """The next step of one policy: statuses, pushes, events."""
    draft = _draft(seen)
    if seen.fenced:
        return _fenced(draft)
    draft = _incumbent(observed(_known(accepted(draft))))
    for command in seen.commands:
        draft = _commanded(draft, command)
    draft = _interrupted(draft)
    draft = converged(_stepped(draft))
    return _plan(draft, with_pushes=True)


def spec_hash(spec: PolicySpec) -> str:
    """Digest of what a policy asks for; pausing is no other question."""
    return digest(replace(spec, paused=False))


def _draft(seen: Seen) -> Draft:
    answered = [agent for agent in seen.agents if agent.report is not None]
    reports = tuple(agent.report for agent in answered if agent.report is not None)
    names = tuple(agent.name for agent in answered)
    return Draft(
        seen=seen,
        status=seen.policy.status or PolicyStatus(),
        experiment=seen.experiment,
        space=space_of(seen.policy.spec, live_knobs(reports)),
        reports=reports,
        names=names,
        by_name=dict(zip(names, reports, strict=True)),
        present=frozenset(agent.name for agent in seen.agents),
    )


def _plan(draft: Draft, *, with_pushes: bool) -> Plan:
    status = replace(
        draft.status,
        phase=_phase(draft),
        observed_generation=draft.seen.policy.metadata.generation or 0,
        spec_hash=spec_hash(draft.seen.policy.spec),
    )
    changed = draft.experiment is not None and draft.experiment != draft.seen.experiment
    return Plan(
        status=status,
        experiment=draft.experiment if changed else None,
        pushes=pushes(draft) if with_pushes else {},
        events=draft.events,
        done=draft.done,
        restores=draft.restores,
    )


def _phase(draft: Draft) -> Phase:
    if draft.experiment is not None and draft.status.experiment is not None:
        return draft.live.status.phase
    return Phase.PAUSED if _pause_reason(draft) else Phase.IDLE


def _fenced(draft: Draft) -> Plan:
    message = "an agent has refused our token: another control plane has taken over; this one stops"
    draft = with_condition(draft, ConditionType.FENCED, Truth.TRUE, Reason.FENCED, message)
    return _plan(with_warning(draft, Reason.FENCED, message), with_pushes=False)


def _known(draft: Draft) -> Draft:
    """Bring the status in line with what agents hold and what the store has."""
    uid = draft.seen.policy.metadata.uid
    held = [r.running.generation for r in draft.reports if r.running.policy_uid == uid]
    highest = max(held, default=0)
    if highest > draft.status.push_generation:
        draft = bumped(with_status(draft, replace(draft.status, push_generation=highest)))
    if draft.experiment is not None and draft.live.status.generation > draft.status.push_generation:
        generation = draft.live.status.generation  # the status was not written after the experiment was
        draft = with_status(draft, replace(draft.status, push_generation=generation))
    draft = _refusing_told(draft)
    edited = draft.status.spec_hash not in ("", spec_hash(draft.seen.policy.spec))
    if edited and draft.experiment is None:  # other prices or windows: the noise known is that of another Y
        draft = with_status(draft, replace(draft.status, noise=None))
    if draft.status.experiment is not None and draft.experiment is None:
        text = f"{draft.status.experiment} is not in the store any more; the incumbent is kept"
        draft = with_warning(draft, Reason.SUPERSEDED, text)
        draft = bumped(with_status(draft, replace(draft.status, experiment=None, estimated_end=None)))
    return draft


def _refusing_told(draft: Draft) -> Draft:
    """Show which agents refuse our token without another control plane, once; else that nothing does."""
    old, refusing = condition(draft.status, ConditionType.FENCED), draft.seen.refusing
    if not refusing:
        if old is None or old.status is not Truth.TRUE:
            return draft
        text = "this control plane has the highest token"
        return with_condition(draft, ConditionType.FENCED, Truth.FALSE, Reason.RUNNING, text)
    text = (
        f"{named(refusing)}: our token is refused although no other control plane has taken over; nothing is "
        "pushed there until a lower token is reported (restart these agents)"
    )
    if old is None or old.status is not Truth.TRUE or old.message != text[:MESSAGE_LIMIT]:
        draft = with_warning(draft, Reason.FENCED, text)
    return with_condition(draft, ConditionType.FENCED, Truth.TRUE, Reason.FENCED, text)


def _incumbent(draft: Draft) -> Draft:
    """Choose what agents outside an arm run, at the start and after an edit of the bounds."""
    if draft.experiment is not None or not draft.space.axes:
        return draft
    current = draft.status.incumbent
    if current is not None and len(draft.reports) < len(draft.seen.agents):
        draft = _without_new_knobs(draft, point(current))
    if current is not None and draft.space.inside(point(current)):
        return draft
    found = start(draft.seen.policy.spec, draft.space, [r.running.incumbent for r in draft.reports])
    if isinstance(found, NoStart):
        draft = with_status(draft, replace(draft.status, incumbent=None))
        return waiting(draft, found.message)
    values = dict(point(found))
    if current is not None:
        for axis in draft.space.axes:
            old = point(current).get(axis.knob)
            if old is not None and axis.holds(old):
                values[axis.knob] = old
    return bumped(with_status(draft, replace(draft.status, incumbent=config_of(values))))


def _without_new_knobs(draft: Draft, known: Point) -> Draft:
    """Leave out knobs that the incumbent has not: who does not answer now may be the one without them."""
    axes = tuple(axis for axis in draft.space.axes if axis.knob in known)
    return replace(draft, space=replace(draft.space, axes=axes))


def _pause_reason(draft: Draft) -> str:
    return "spec.paused is true" if draft.seen.policy.spec.paused else draft.status.paused_because


def _commanded(draft: Draft, command: Command) -> Draft:
    """Carry out one wish of the user, or say why not. A wish to try waits until the policy rests."""
    if command.verb is Verb.TRY:
        return replace(draft, done=(*draft.done, command)) if is_tried(draft, command) else draft
    draft = replace(draft, done=(*draft.done, command))
    running = draft.experiment.metadata.name if draft.experiment else ""
    match command.verb:
        case Verb.PAUSE:
            return with_status(draft, replace(draft.status, paused_because="paused by kvtune pause"))
        case Verb.RESUME:
            return with_status(draft, replace(draft.status, paused_because=""))
        case Verb.ABORT:
            if not running or (command.target and command.target != running):
                asked = command.target or "an experiment"
                return with_warning(draft, Reason.NOT_AVAILABLE, f"abort: {asked} is not running")
            return ended(draft, Outcome.ABORTED, OutcomeReason.USER, "aborted by the user")
        case Verb.APPROVE:
            waits = draft.experiment is not None and draft.live.status.phase is Phase.AWAITING_APPROVAL
            if not waits or command.target != running:
                text = f"approve: {command.target or 'no name'} does not wait for approval"
                return with_warning(draft, Reason.NOT_AVAILABLE, text)
            if (why := no_promotion(draft)) is not None:
                return with_warning(draft, Reason.NOT_AVAILABLE, f"approve {command.target}: {why}")
            draft = with_record(draft, replace(draft.live.status, approved=True))
            return begin_promotion(draft, Turn.APPROVED)
        case Verb.RESTORE:
            return with_restores(draft, command.target)
        case Verb.TRY:
            raise AssertionError("handled above")


def _interrupted(draft: Draft) -> Draft:
    """End a running experiment that may not go on, whatever its phase and whether metrics come or not."""
    if draft.experiment is None or draft.live.status.outcome is not None:
        return draft
    seen, record, spec = draft.seen, draft.live.status, draft.live.spec
    settings = spec.policy_spec.experiment
    if seen.policy.metadata.deletion_timestamp is not None:
        return ended(draft, Outcome.ABORTED, OutcomeReason.SUPERSEDED, "the policy was removed")
    if seen.invalid:
        text = f"the policy's spec is not valid any more: {seen.invalid}"
        return ended(draft, Outcome.ABORTED, OutcomeReason.SUPERSEDED, text)
    if spec_hash(seen.policy.spec) != spec_hash(spec.policy_spec):
        return ended(draft, Outcome.ABORTED, OutcomeReason.SUPERSEDED, "the policy was edited")
    if pause := _pause_reason(draft):
        return ended(draft, Outcome.ABORTED, OutcomeReason.USER, pause)
    if draft.live.metadata.deletion_timestamp is not None:
        return ended(draft, Outcome.ABORTED, OutcomeReason.USER, "the experiment was deleted")
    if (why := end_of_experiment(draft)) is not None and record.phase is not Phase.AWAITING_APPROVAL:
        return ended(draft, Outcome.ABORTED, OutcomeReason.FROZEN, why)
    if seen.shutdown and record.phase is not Phase.AWAITING_APPROVAL:
        return ended(draft, Outcome.ABORTED, OutcomeReason.SHUTDOWN, "the control plane is being stopped")
    if seen.ends_at is not None and seen.now >= seen.ends_at:
        return ended(draft, Outcome.ABORTED, OutcomeReason.BUDGET, "the time given to this run is over")
    too_long = draft.now_s - record.started_at > settings.max_duration.seconds
    if too_long and record.phase in (Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING):
        text = f"longer than maxDuration {settings.max_duration}"
        return ended(draft, Outcome.ABORTED, OutcomeReason.BUDGET, text)
    return draft


def _stepped(draft: Draft) -> Draft:
    """One step of the phase that the policy is in."""
    if draft.experiment is None:
        return _rested(draft)
    if draft.live.status.outcome is None and draft.live.status.phase in EXPOSED:
        draft = guarded(draft)
    record = draft.live.status
    match record.phase:
        case Phase.RUN_IN | Phase.WASHOUT | Phase.MEASURING:
            draft = progressed(draft)
        case Phase.AWAITING_APPROVAL:
            draft = _awaiting(draft)
        case Phase.PROMOTING:
            draft = promoting(draft)
        case Phase.WATCHING:
            draft = watching(draft)
        case Phase.ROLLING_BACK:
            return restoring(draft) if record.phase_since < draft.now_s else draft
        case Phase.IDLE | Phase.PAUSED | Phase.PROPOSED:
            pass
    if draft.live.status.phase is Phase.IDLE and draft.status.experiment is not None:
        return recorded(draft)
    return draft


def _awaiting(draft: Draft) -> Draft:
    record, name = draft.live.status, draft.live.metadata.name
    if draft.now_s > record.deadline:
        timeout = draft.live.spec.policy_spec.experiment.approval_timeout
        return ended(
            draft, Outcome.INCONCLUSIVE, OutcomeReason.NOT_APPROVED, f"not approved within {timeout}"
        )
    return waiting(draft, f"{name} won and {approval_of(name)}")


def _rested(draft: Draft) -> Draft:
    if pause := _pause_reason(draft):
        draft = with_condition(draft, ConditionType.EXPERIMENTING, Truth.FALSE, Reason.PAUSED, pause)
        return waiting(draft, pause)
    seen = draft.seen
    if seen.shutdown or seen.policy.metadata.deletion_timestamp is not None:
        return waiting(draft, "stopping")
    if draft.status.observed_generation != (seen.policy.metadata.generation or 0):
        draft = with_status(draft, replace(draft.status, next_try_at=None))
    if seen.policy.spec.mode is not Mode.OBSERVE and draft.status.would_try is not None:
        draft = with_status(draft, replace(draft.status, would_try=None, would_gain=None))
    wish = next((c for c in seen.commands if c.verb is Verb.TRY and c not in draft.done), None)
    return considered(draft) if wish is None else tried(draft, wish)
