"""Agents that evict by LRU in place of the policy that they were asked to run. Pure.

When they are to do so, that people are told, and how they go back on command. It decides nothing about
experiments: an arm in which the policy gave way is judged by what it served, as every arm is.
"""

from dataclasses import replace

from kvtune_api.knobs import Knob
from kvtune_api.names import ConditionType, Reason
from kvtune_api.policy import PolicySpec
from kvtune_api.status import Truth
from kvtune_api.wire import FallbackRules, Report
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


def fallback_rules(spec: PolicySpec, report: Report) -> FallbackRules | None:
    """When an agent is to fall back; None: by its own rules, or it has no eviction policy to give up."""
    asked = spec.eviction_fallback
    if asked is None or all(support.knob is not Knob.EVICTION_POLICY for support in report.supports):
        return None
    return FallbackRules(
        least_reuse_rate=asked.least_reuse_rate,
        over_seconds=asked.over.seconds,
        return_after_seconds=None if asked.return_after is None else asked.return_after.seconds,
    )


def with_restores(draft: Draft, target: str) -> Draft:
    """Let an agent, or all that have fallen back, return to the policy asked for; or say why not."""
    fallen = [name for name in draft.names if draft.by_name[name].fallback is not None]
    wanted = tuple(name for name in fallen if target in ("", name, draft.by_name[name].agent))
    if wanted:
        return replace(draft, restores=(*draft.restores, *wanted))
    text = (
        f"restore: {target or 'no agent'} {'does not run' if target else 'runs'} LRU in place of its policy"
    )
    return with_warning(draft, Reason.NOT_AVAILABLE, text)
