"""Apply what the control plane allows beside the policy: freezes, kill switch, cap on exposure. Pure."""

import math

from kvtune_api.names import Reason
from kvtune_api.policy import Mode
from kvtune_tuner.draft import Draft
from kvtune_tuner.model import Hold

ROUNDING = 1e-9
FREEZES = frozenset({Reason.FROZEN, Reason.STOPPED})


def refusal(draft: Draft) -> Hold | None:
    """Why no experiment may start, asked for or not; None when one may. Mode Observe starts none anyway."""
    if draft.seen.policy.spec.mode is Mode.OBSERVE:
        return None
    if draft.seen.limits.no_start is not None:
        return draft.seen.limits.no_start
    if most_exposed(draft) < 1:
        share, agents = draft.seen.limits.exposed_share, len(draft.seen.agents)
        text = f"maxExposedShare {share:g} of {agents} agents is less than one: no candidate may run"
        return Hold(reason=Reason.CAPPED, message=text)
    return None


def most_exposed(draft: Draft) -> int:
    """How many agents may run an unproven candidate at once: one of each pair does.

    The ramp of a promotion is not capped: its candidate is proven, and the watch compares it with a holdback.
    """
    return math.floor(draft.seen.limits.exposed_share * len(draft.seen.agents) + ROUNDING)


def end_of_experiment(draft: Draft) -> str | None:
    """Why a running experiment must end now; None when it may go on."""
    found = draft.seen.limits.no_experiment
    return None if found is None else f"{found.reason}: {found.message}"


def no_promotion(draft: Draft) -> str | None:
    """Why a winner that waits for approval may not be promoted now; None when it may."""
    limits = draft.seen.limits
    starts = limits.no_start if limits.no_start and limits.no_start.reason in FREEZES else None
    found = limits.no_experiment or starts
    return None if found is None else f"{found.reason}: {found.message}"
