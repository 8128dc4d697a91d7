"""Tell people of agents that evict by LRU in place of the policy that they were asked to run. Pure.

It decides nothing: an arm in which the policy gave way is judged by what it served, as every arm is.
"""

from kvtune_api.names import ConditionType, Reason
from kvtune_api.status import Truth
from kvtune_tuner.draft import Draft, condition, with_condition, with_warning

KIND = ConditionType.EVICTION_AS_ASKED


def with_fallbacks(draft: Draft) -> Draft:
    """Set the condition, and warn when an agent falls back; a policy that never met one has no condition."""
    fallen = [
        (name, report.running.config.eviction_policy, report.fallback)
        for name, report in zip(draft.names, draft.reports, strict=True)
        if report.fallback is not None
    ]
    old = condition(draft.status, KIND)
    if not fallen:
        if old is None:
            return draft
        return with_condition(draft, KIND, Truth.TRUE, Reason.READY, "every agent runs the policy asked for")
    name, policy, fallback = fallen[0]
    others = f" and {len(fallen) - 1} more" if len(fallen) > 1 else ""
    message = f"{name}{others}: LRU in place of {policy}: {fallback.reason}: {fallback.message}"
    if old is None or old.status is not Truth.FALSE:
        draft = with_warning(draft, Reason.EVICTION_FALLBACK, message)
    elif old.message.partition(": LRU")[0] == message.partition(": LRU")[0]:
        message = old.message
    return with_condition(draft, KIND, Truth.FALSE, Reason.EVICTION_FALLBACK, message)
