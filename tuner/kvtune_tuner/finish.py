"""Finish an experiment: restore the incumbents, then write the trial down. Pure."""

import math
from dataclasses import replace

from kvtune_api.experiment import Kind, KVCacheExperiment
from kvtune_api.experiment_settings import OnGuardrail
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Reason
from kvtune_api.status import TRIALS_KEPT, FalsePositives, Noise, PolicyStatus, Promotion, Trial, Truth
from kvtune_api.wire import Role
from kvtune_tuner.draft import (
    Draft,
    bumped,
    later,
    runs,
    turned,
    waiting,
    with_condition,
    with_event,
    with_record,
    with_status,
    with_warning,
)
from kvtune_tuner.leavers import is_going
from kvtune_tuner.ledger import read
from kvtune_tuner.phases import Turn

LEAST_DELTAS_FOR_NOISE = 6
"""An experiment with fewer Deltas says too little about their sd to replace what is known."""


def restoring(draft: Draft) -> Draft:
    """One step of RollingBack: wait until every agent that answers runs the incumbent."""
    record, incumbent = draft.live.status, draft.status.incumbent
    assert incumbent is not None, "an experiment had one"
    exposed = [agent.name for agent in draft.seen.agents if agent.report is not None]
    off = [
        name
        for name in exposed
        if (report := draft.report(name)) is not None
        and (report.running.role is not Role.INCUMBENT or not runs(report, incumbent))
    ]
    silent = [
        agent.name
        for agent in draft.seen.agents
        if agent.report is None and _was_in(draft, agent.name) and not is_going(draft, agent.name)
    ]
    nobody = record.exposed and not draft.seen.agents
    if off or silent or nobody:
        if draft.now_s <= record.deadline:
            text = f"{len(off)} agents to go, {len(silent)} do not answer"
            return waiting(draft, f"restoring the incumbent: {'no agent is left' if nobody else text}")
        who = "the pool is gone: nobody" if nobody else ", ".join((off + silent)[:5])
        did = "confirmed" if nobody else "did not confirm"
        text = f"{who} {did} the incumbent in time; their lease has ended"
        draft = with_warning(draft, Reason.ROLLBACK_LATE, text)
    return recorded(turned(draft, Turn.RESTORED, deadline=draft.now_s))


def _was_in(draft: Draft, name: str) -> bool:
    return any(name in (pair.first, pair.second) for pair in draft.live.spec.pairs)


def recorded(draft: Draft) -> Draft:
    """Write the ended experiment into the policy's history; the policy rests afterwards."""
    record = draft.live.status
    assert record.outcome is not None and record.reason is not None, "only ended experiments are recorded"
    ended_at = record.ended_at or draft.seen.now
    draft = with_record(draft, replace(record, ended_at=ended_at, estimated_end=None, epoch=None))
    draft = _with_winner(draft)
    experiment = draft.live
    name, message = experiment.metadata.name, f"{record.outcome}({record.reason}): {record.message}"
    status = draft.status
    cooldown = draft.seen.policy.spec.experiment.cooldown.seconds
    status = replace(
        status,
        experiment=None,
        estimated_end=None,
        last_outcome=f"{name} {record.outcome}({record.reason})",
        trials=(*status.trials, trial(draft))[-TRIALS_KEPT:],
        noise=_noise(draft),
        cooldown_until=later(draft.seen.now, cooldown) if cooldown > 0 else None,
        expected_false_promotions=_expected_false(status, experiment),
        false_positives=_false_positives(status, experiment),
        paused_because=_pause(experiment) or status.paused_because,
    )
    kept = tuple(c for c in status.conditions if c.type is not ConditionType.INCUMBENT_HEALTHY)
    draft = with_status(draft, replace(status, conditions=kept))
    draft = with_event(draft, Reason.EXPERIMENT_ENDED, f"{name}: {message}")
    return with_condition(
        draft, ConditionType.EXPERIMENTING, Truth.FALSE, Reason.RESTING, f"{name} {message}"
    )


def _with_winner(draft: Draft) -> Draft:
    """The winner is the incumbent from now on, at every agent, without a lease."""
    spec, record = draft.live.spec, draft.live.status
    if record.outcome is not Outcome.PROMOTED or spec.kind is not Kind.GAIN:
        return draft
    name = draft.live.metadata.name
    promotion = Promotion(config=spec.candidate, experiment=name, at=draft.seen.now)
    status = replace(draft.status, incumbent=spec.candidate, promoted=promotion)
    draft = bumped(with_status(draft, status))
    return with_event(draft, Reason.PROMOTED, f"{name}: {record.message}")


def trial(draft: Draft) -> Trial:
    """The experiment in short."""
    spec, record = draft.live.spec, draft.live.status
    assert record.outcome is not None and record.reason is not None
    seen = record.evidence
    margins = {plan.name: plan.margin for plan in record.guardrails}
    return Trial(
        experiment=draft.live.metadata.name,
        number=spec.number,
        candidate=spec.candidate,
        incumbent=spec.incumbent,
        strategy=spec.strategy,
        outcome=record.outcome,
        reason=record.reason,
        ended_at=draft.seen.now,
        deltas=seen.deltas,
        effect=seen.effect,
        sd=seen.sd,
        predicted=spec.predicted_gain,
        guardrails={name: value + margins.get(name, 0.0) for name, value in seen.guardrails.items()},
        objective=seen.candidate.get("objective"),
        shifted=spec.kind is Kind.AA,  # equal configurations say nothing about either
    )


def _noise(draft: Draft) -> Noise | None:
    """The sd of this experiment's Deltas, if it has enough of them: the s0 of the next."""
    record = draft.live.status
    readings = read(draft.live) if record.noise_objective is not None else ()
    if not readings or readings[-1].tests.n < LEAST_DELTAS_FOR_NOISE:
        return draft.status.noise
    tests = readings[-1].tests
    sd, mean = tests.harm.sd, tests.harm.mean
    if sd is None or sd <= 0 or not math.isfinite(sd):
        return draft.status.noise
    known = dict(draft.status.noise.guardrails) if draft.status.noise else {}
    measured = {
        g.name: g.noninferior.sd for g in tests.guardrails if g.noninferior.n >= LEAST_DELTAS_FOR_NOISE
    }
    return Noise(
        objective=sd,
        guardrails=known | {name: value for name, value in measured.items() if value},
        measured_at=draft.seen.now,
        pairs=draft.live.spec.pairs,
        pairing=draft.live.spec.pairing,
        from_run_in=False,
        effect_over_sd=abs(mean) / sd,
    )


def _pause(experiment: KVCacheExperiment) -> str:
    tripped = experiment.status.reason is OutcomeReason.BREAKER
    asked = experiment.spec.policy_spec.experiment.on_guardrail is OnGuardrail.ROLLBACK_AND_PAUSE
    return f"guardrail tripped in {experiment.metadata.name}" if tripped and asked else ""


def _expected_false(status: PolicyStatus, experiment: KVCacheExperiment) -> float:
    """Each experiment that was decided may have promoted falsely with probability alpha at most."""
    tested = any(row.block >= 0 for row in experiment.status.rows)
    alpha = experiment.spec.policy_spec.experiment.alpha
    return status.expected_false_promotions + (alpha if tested and experiment.spec.kind is Kind.GAIN else 0.0)


def _false_positives(status: PolicyStatus, experiment: KVCacheExperiment) -> FalsePositives | None:
    if experiment.spec.kind is not Kind.AA:
        return status.false_positives
    seen = status.false_positives or FalsePositives()
    outcome = experiment.status.outcome
    decided = outcome in (Outcome.PROMOTED, Outcome.REJECTED) or (
        experiment.status.reason is OutcomeReason.MAX_PAIRS
    )
    return FalsePositives(
        experiments=seen.experiments + decided,
        promoted=seen.promoted + (outcome is Outcome.PROMOTED),
        rejected=seen.rejected + (outcome is Outcome.REJECTED),
    )
