"""Say in a policy's status whether its spec is accepted. Pure.

Called by plan for specs that can be read, and by the shell for those that cannot.
"""

from dataclasses import replace
from datetime import datetime

from kvtune_api.errors import SpecError
from kvtune_api.metadata import Metadata
from kvtune_api.names import ConditionType, Reason
from kvtune_api.status import Condition, PolicyStatus, Truth
from kvtune_tuner.draft import MESSAGE_LIMIT, WAITING_LIMIT, Draft, with_condition
from kvtune_tuner.model import Event, EventType


def accepted(draft: Draft) -> Draft:
    """Set the condition Accepted of a spec that could be read; while it could not, say why."""
    if draft.seen.invalid:
        text = draft.seen.invalid[:MESSAGE_LIMIT]
        return with_condition(draft, ConditionType.ACCEPTED, Truth.FALSE, Reason.INVALID, text)
    return with_condition(draft, ConditionType.ACCEPTED, Truth.TRUE, Reason.ACCEPTED, "the spec is accepted")


def refused(
    metadata: Metadata, status: PolicyStatus | None, error: SpecError, now: datetime
) -> tuple[PolicyStatus, tuple[Event, ...]]:
    """The status of a policy whose spec cannot be read, and an event when that is news."""
    held = status or PolicyStatus()
    message = str(error)[:MESSAGE_LIMIT]
    generation = metadata.generation or 0
    known = next((c for c in held.conditions if c.type is ConditionType.ACCEPTED), None)
    same = (Truth.FALSE, message, generation)
    if known is not None and (known.status, known.message, known.observed_generation) == same:
        return held, ()
    since = known.last_transition_time if known is not None and known.status is Truth.FALSE else now
    condition = Condition(
        type=ConditionType.ACCEPTED,
        status=Truth.FALSE,
        reason=Reason.INVALID,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )
    others = tuple(c for c in held.conditions if c.type is not ConditionType.ACCEPTED)
    written = replace(
        held,
        conditions=(condition, *others),
        observed_generation=generation,
        waiting_for=f"a valid spec: {message}"[:WAITING_LIMIT],
    )
    return written, (Event(type=EventType.WARNING, reason=Reason.INVALID, message=message),)
