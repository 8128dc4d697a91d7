"""Judge an experiment at a block's end, from its ledger alone. Pure."""

from dataclasses import replace

from kvtune_api.experiment import Kind
from kvtune_api.names import Outcome, OutcomeReason, Reason
from kvtune_api.policy import Mode
from kvtune_tuner.draft import Draft, approval_of, bumped, ended, turned, with_event, with_record
from kvtune_tuner.evidence import evidence, shown
from kvtune_tuner.ledger import decision, read
from kvtune_tuner.phases import Turn
from kvtune_tuner.promote import begin_promotion
from kvtune_tuner.verdict import Continue, Inconclusive, Promote, Reject


def block_judged(draft: Draft) -> Draft:
    """Read the ledger, record the decision, and act on it."""
    readings = read(draft.live)
    if not readings:
        return draft
    last = readings[-1]
    record = draft.live.status
    found = evidence(draft.live)
    draft = with_record(
        draft,
        replace(
            record,
            decisions=(*record.decisions, decision(last)),
            evidence=found,
            shown=shown(found, draft.live.spec.max_pairs),
        ),
    )
    match last.verdict:
        case Continue():
            return draft
        case Reject(reason=reason, message=message):
            return ended(draft, Outcome.REJECTED, reason, message)
        case Inconclusive(reason=reason, message=message):
            return ended(draft, Outcome.INCONCLUSIVE, reason, message)
        case Promote(message=message):
            return _superior(draft, message)


def _superior(draft: Draft, message: str) -> Draft:
    if draft.live.spec.kind is Kind.AA:
        text = f"declared superior although equal (a false positive): {message}"
        return ended(draft, Outcome.PROMOTED, OutcomeReason.SUPERIOR, text)
    draft = with_record(draft, replace(draft.live.status, message=message[:1000]))
    if draft.live.spec.policy_spec.mode is not Mode.RECOMMEND:
        return begin_promotion(draft, Turn.SUPERIOR)
    timeout = draft.live.spec.policy_spec.experiment.approval_timeout.seconds
    draft = bumped(turned(draft, Turn.APPROVAL_NEEDED, deadline=draft.now_s + timeout))
    text = f"{draft.live.metadata.name} won and {approval_of(draft.live.metadata.name)}"
    return with_event(draft, Reason.AWAITING_APPROVAL, text)
