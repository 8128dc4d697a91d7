"""Say of the pool whether its agents are ready and its own, and why no experiment can start with it. Pure."""

from collections.abc import Sequence

from kvtune_api.names import ConditionType, Reason
from kvtune_api.status import Truth
from kvtune_tuner.draft import Draft, condition, with_condition, with_event, with_warning
from kvtune_tuner.leavers import replaced, staying
from kvtune_tuner.model import Hold

LEAST_AGENTS = 2
NAMED = 3
"""So many agents are named where many are meant."""


def named(names: Sequence[str]) -> str:
    """The first names of many."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def hold(draft: Draft) -> Hold | None:
    """Why no experiment can start with this pool; None when one can."""
    usable = staying(draft)
    if len(usable) < LEAST_AGENTS:
        return _too_few(draft, len(usable))
    if going := replaced(draft):
        text = f"a rollout is under way, agents that it replaces: {named(going)}"
        return Hold(reason=Reason.MIXED_VERSIONS, message=text)
    versions = sorted({report.version for report in draft.reports})
    if len(versions) > 1:
        text = f"agents run different versions ({', '.join(versions)}): waiting until they are the same"
        return Hold(reason=Reason.MIXED_VERSIONS, message=text)
    if not draft.space.axes:
        text = "no knob of the policy can be changed live at every agent"
        return Hold(reason=Reason.KNOB_UNSUPPORTED, message=text)
    return None


def _too_few(draft: Draft, usable: int) -> Hold:
    """Why fewer than two agents can take part: what nodes and pods say comes first."""
    pool = draft.seen.pool
    if pool.reason is not None:
        return Hold(reason=pool.reason, message=pool.message or str(pool.reason))
    if not draft.seen.agents and pool.contested:
        return Hold(reason=Reason.OVERLAPPING, message=_contested(draft))
    if not draft.seen.agents:
        return Hold(reason=Reason.NO_AGENTS, message="the selector selects no agent")
    if pool.leaving:
        text = f"{usable} of {len(draft.seen.agents)} agents answer and stay; an experiment needs 2"
        return Hold(reason=Reason.TOO_FEW_AGENTS, message=text)
    silent = len(draft.reports) < len(draft.seen.agents)
    text = f"{usable} of {len(draft.seen.agents)} agents answer; an experiment needs 2"
    return Hold(reason=Reason.UNREACHABLE if silent else Reason.TOO_FEW_AGENTS, message=text)


def described(draft: Draft) -> Draft:
    """Set the conditions AgentsReady and Exclusive; each new reason why agents are not ready is an event."""
    ready, found = _ready(draft)
    truth, old = Truth.TRUE if ready else Truth.FALSE, condition(draft.status, ConditionType.AGENTS_READY)
    if not ready and (old is None or (old.status, old.reason) != (truth, found.reason)):
        expected = found.reason is Reason.MIXED_VERSIONS  # a rollout is nobody's fault
        draft = (with_event if expected else with_warning)(draft, found.reason, found.message)
    return _exclusive(with_condition(draft, ConditionType.AGENTS_READY, truth, found.reason, found.message))


def _ready(draft: Draft) -> tuple[bool, Hold]:
    pool, silent = draft.seen.pool, [agent for agent in draft.seen.agents if agent.report is None]
    if pool.reason is not None:
        return False, Hold(reason=pool.reason, message=pool.message or str(pool.reason))
    if silent:
        shown = "; ".join(f"{agent.name}: {agent.trouble}" for agent in silent[:NAMED])
        more = f" and {len(silent) - NAMED} more" if len(silent) > NAMED else ""
        message = f"{len(silent)} of {len(draft.seen.agents)} agents do not answer: {shown}{more}"
        return False, Hold(reason=Reason.UNREACHABLE, message=message)
    if (held := hold(draft)) is not None:
        return False, held
    if draft.space.left_out:
        knobs = ", ".join(draft.space.left_out)
        message = f"tuned without {knobs}: not every agent can change it live"
        return True, Hold(reason=Reason.KNOB_UNSUPPORTED, message=message)
    leaving = sorted(pool.leaving)
    out = f"; about to leave or not ready: {named(leaving)}" if leaving else ""
    return True, Hold(reason=Reason.READY, message=f"{len(draft.reports)} agents answer{out}")


def _exclusive(draft: Draft) -> Draft:
    """Say whether another policy has agents that this one selects; silent while none ever had."""
    kind, known = ConditionType.EXCLUSIVE, condition(draft.status, ConditionType.EXCLUSIVE)
    if draft.seen.pool.contested:
        return with_condition(draft, kind, Truth.FALSE, Reason.OVERLAPPING, _contested(draft))
    if known is None:
        return draft
    text = "no older policy selects these agents"
    return with_condition(draft, kind, Truth.TRUE, Reason.SOLE, text)


def _contested(draft: Draft) -> str:
    """Which agents belong to which older policies."""
    contested = draft.seen.pool.contested
    owners = sorted(set(contested.values()))
    whose = f"policy {owners[0]}" if len(owners) == 1 else f"policies {named(owners)}"
    agents = "agent is" if len(contested) == 1 else "agents are"
    return (
        f"{len(contested)} selected {agents} tuned by the older {whose}: {named(sorted(contested))}; "
        "this policy leaves them alone"
    )
