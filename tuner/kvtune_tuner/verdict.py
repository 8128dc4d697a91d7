"""Decide at a block's end whether an experiment goes on, and if not, how the comparison ended.

Called by plan and replay with the tests after whole blocks. A harm that shows in the same tick as a success
wins (case 15), and Inconclusive is never a promotion (case 17). Safety is guard.py's business, not this
module's. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvtune_api.names import OutcomeReason
from kvtune_tuner.compare import Declared, EProcess, Tests
from kvtune_tuner.quality import Issue, IssueReason


class ContinueReason(StrEnum):
    """Say why no verdict has fallen yet."""

    UNDECIDED = "Undecided"
    MIN_PAIRS = "MinPairs"
    QUALITY = "Quality"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue:
    """Go on: another block is needed."""

    reason: ContinueReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """Take the candidate: it is superior and on no guardrail inferior."""

    reason: OutcomeReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Keep the incumbent: a harm test crossed."""

    reason: OutcomeReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconclusive:
    """Keep the incumbent: the experiment ended without an answer."""

    reason: OutcomeReason
    message: str


Verdict = Continue | Promote | Reject | Inconclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Hold when a verdict may fall. Pairs are Deltas: one pair in one block."""

    alpha: float = 0.05
    min_pairs: int = 8
    max_pairs: int = 24
    unmeasured_is_no_data: bool = True
    """Whether a guardrail without data for half of the Deltas ends as NoData (ledgers of version 1: not)."""


def verdict(tests: Tests, rules: Rules, *, quality: Sequence[Issue] = ()) -> Verdict:
    """Return the verdict after a whole block.

    In this order: harm rejects; a broken sample ratio ends the comparison; superior on the objective,
    non-inferior on every guardrail, enough pairs and no quality issue promote; at max_pairs it is
    inconclusive. There is no alpha split over guardrails: all must pass (intersection-union)."""
    found = tests.declared(rules.alpha)
    if harm := _harm(tests, found, rules):
        return harm
    for issue in quality:
        if issue.reason is IssueReason.SAMPLE_RATIO:
            return Inconclusive(reason=OutcomeReason.SAMPLE_RATIO, message=issue.message)
    wins = found.superior and not found.undecided_guardrails
    if wins and tests.n >= rules.min_pairs and not quality:
        return Promote(reason=OutcomeReason.SUPERIOR, message=_superior(tests, rules))
    if tests.n >= rules.max_pairs:
        if found.superior and (missing := _unmeasured(tests, found, rules)) is not None:
            return Inconclusive(reason=OutcomeReason.NO_DATA, message=missing)
        why = quality[0].message if wins and quality else _undecided(tests, found, rules)
        return Inconclusive(
            reason=OutcomeReason.MAX_PAIRS, message=f"{tests.n} of {rules.max_pairs} Deltas judged: {why}"
        )
    if wins and quality:
        return Continue(reason=ContinueReason.QUALITY, message=quality[0].message)
    if wins:
        return Continue(
            reason=ContinueReason.MIN_PAIRS,
            message=f"{tests.n} Deltas are fewer than minPairs {rules.min_pairs}; {_superior(tests, rules)}",
        )
    return Continue(reason=ContinueReason.UNDECIDED, message=_undecided(tests, found, rules))


def _harm(tests: Tests, found: Declared, rules: Rules) -> Reject | None:
    """Return the rejection by the first harm test that declares, the objective's before the guardrails'."""
    if found.harm:
        effect = -tests.harm.mean
        return Reject(
            reason=OutcomeReason.HARM_OBJECTIVE,
            message=f"objective: mean Delta {effect:+.4f} over {tests.n} Deltas, {_e(tests.harm, rules)}",
        )
    for guardrail in tests.guardrails:
        if guardrail.name in found.guardrail_harms:
            mean = -(guardrail.harm.mean + guardrail.margin)
            return Reject(
                reason=OutcomeReason.HARM_GUARDRAIL,
                message=f"{guardrail.name}: mean Delta {mean:+.4f} over {guardrail.harm.n} Deltas is worse "
                f"than the margin -{guardrail.margin:g}, {_e(guardrail.harm, rules)}",
            )
    return None


def _unmeasured(tests: Tests, found: Declared, rules: Rules) -> str | None:
    """Return which guardrail cannot be judged for want of data: that is no loss of the candidate's."""
    if not rules.unmeasured_is_no_data:
        return None
    for guardrail in tests.guardrails:
        known = guardrail.noninferior.n
        if guardrail.name in found.undecided_guardrails and 2 * known < tests.n:
            return (
                f"guardrail {guardrail.name} was measured in {known} of {tests.n} Deltas, no judgement; "
                f"the objective was superior: {_superior(tests, rules)}"
            )
    return None


def _superior(tests: Tests, rules: Rules) -> str:
    effect = tests.superior.mean + tests.dmin
    return f"mean Delta {effect:+.4f} over {tests.n} Deltas, {_e(tests.superior, rules)}"


def _undecided(tests: Tests, found: Declared, rules: Rules) -> str:
    """Return what is still open: the objective, else the first guardrail."""
    if not found.superior:
        recent = tests.recent_mean
        crossed = tests.superior.log_e >= -math.log(rules.alpha)
        tail = f", mean of the last two blocks {recent:+.4f}" if crossed and recent is not None else ""
        return f"objective open: {_superior(tests, rules)}{tail}"
    name = found.undecided_guardrails[0]
    test = next(guardrail for guardrail in tests.guardrails if guardrail.name == name)
    mean = test.noninferior.mean - test.margin if test.noninferior.n else 0.0
    return (
        f"guardrail {name} open: mean Delta {mean:+.4f} over {test.noninferior.n} Deltas, "
        f"margin {test.margin:g}, {_e(test.noninferior, rules)}"
    )


def _e(test: EProcess, rules: Rules) -> str:
    return f"e-value {test.e_value:.3g} against {1.0 / rules.alpha:g}"
