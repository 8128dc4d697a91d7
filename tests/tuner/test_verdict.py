"""When a comparison ends, and that only a clean win promotes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.names import OutcomeReason
from kvtune_tuner.compare import Guardrail, PairDelta, Tests
from kvtune_tuner.quality import Issue, IssueReason
from kvtune_tuner.verdict import Continue, ContinueReason, Inconclusive, Promote, Reject, Rules, verdict

RULES = Rules()
RATIO = Issue(reason=IssueReason.SAMPLE_RATIO, message="900 and 100 new sessions")
DRIFT = Issue(reason=IssueReason.CONFIG_DRIFT, message="agent a runs generation 3")


def after(blocks: list[list[tuple[float, float]]], *, s0: float = 0.01, margin: float = 0.02) -> Tests:
    """Return the tests after blocks of (objective, ttft) Deltas."""
    tests = Tests.start(s0, guardrails=[Guardrail(name="ttft", margin=margin, s0=s0)])
    for block in blocks:
        tests = tests.add_block([PairDelta(objective=y, guardrails={"ttft": g}) for y, g in block])
    return tests


WINNER = after([[(0.05, 0.0)] * 3] * 3)


def test_a_clear_winner_is_promoted_with_its_numbers() -> None:
    found = verdict(WINNER, RULES)
    assert isinstance(found, Promote)
    assert found.reason is OutcomeReason.SUPERIOR
    assert "+0.0500 over 9 Deltas" in found.message


def test_a_winner_waits_for_the_minimum_of_pairs() -> None:
    found = verdict(after([[(0.05, 0.0)] * 3] * 2), RULES)
    assert isinstance(found, Continue)
    assert found.reason is ContinueReason.MIN_PAIRS


def test_a_winner_that_is_inferior_on_a_guardrail_is_rejected() -> None:
    found = verdict(after([[(0.05, -0.06)] * 3] * 3), RULES)
    assert isinstance(found, Reject)
    assert found.reason is OutcomeReason.HARM_GUARDRAIL
    assert "ttft" in found.message
    assert "-0.0600" in found.message


def test_a_winner_that_is_undecided_on_a_guardrail_goes_on() -> None:
    found = verdict(after([[(0.05, -0.02)] * 3] * 3), RULES)
    assert isinstance(found, Continue)
    assert "guardrail ttft open" in found.message


def test_a_guardrail_without_any_value_never_passes() -> None:
    tests = Tests.start(0.01, guardrails=[Guardrail(name="ttft", margin=0.02, s0=0.01)])
    for _ in range(8):
        tests = tests.add_block([PairDelta(objective=0.05)] * 3)
    found = verdict(tests, RULES)
    assert isinstance(found, Inconclusive)
    assert "ttft" in found.message


def test_a_loser_is_rejected_by_the_objective() -> None:
    found = verdict(after([[(-0.05, 0.0)] * 3] * 2), RULES)
    assert isinstance(found, Reject)
    assert found.reason is OutcomeReason.HARM_OBJECTIVE
    assert "-0.0500" in found.message


def test_case_15_late_harm_wins_over_a_success_in_the_same_tick() -> None:
    both = after([[(0.05, -0.06)] * 3] * 3)
    found = both.declared(RULES.alpha)
    assert found.superior
    assert found.guardrail_harms == ("ttft",)
    assert isinstance(verdict(both, RULES), Reject)


def test_case_15_harm_wins_at_the_last_pair_and_over_a_broken_sample_ratio() -> None:
    harmed = after([[(-0.05, 0.0)] * 3] * 8)
    assert isinstance(verdict(harmed, RULES, quality=(RATIO,)), Reject)


def test_case_17_undecided_at_max_pairs_is_inconclusive_and_never_promotes() -> None:
    found = verdict(after([[(0.0, 0.0)] * 3] * 8), RULES)
    assert isinstance(found, Inconclusive)
    assert found.reason is OutcomeReason.MAX_PAIRS
    assert "24 of 24 Deltas" in found.message


def test_a_win_at_the_last_pair_still_promotes() -> None:
    assert isinstance(verdict(WINNER, Rules(max_pairs=9)), Promote)


def test_a_broken_sample_ratio_ends_even_a_winner_as_inconclusive() -> None:
    found = verdict(WINNER, RULES, quality=(DRIFT, RATIO))
    assert isinstance(found, Inconclusive)
    assert found.reason is OutcomeReason.SAMPLE_RATIO
    assert found.message == RATIO.message


def test_another_quality_issue_holds_a_winner_until_max_pairs() -> None:
    held = verdict(WINNER, RULES, quality=(DRIFT,))
    assert isinstance(held, Continue)
    assert (held.reason, held.message) == (ContinueReason.QUALITY, DRIFT.message)
    ended = verdict(WINNER, Rules(max_pairs=9), quality=(DRIFT,))
    assert isinstance(ended, Inconclusive)
    assert DRIFT.message in ended.message


def test_no_data_at_all_goes_on() -> None:
    assert isinstance(verdict(after([]), RULES), Continue)
    assert isinstance(verdict(after([[]]), RULES), Continue)


def test_a_lasting_win_whose_last_two_blocks_lose_says_so() -> None:
    found = verdict(after([[(0.03, 0.01)] * 3] * 4 + [[(-0.0001, 0.01)] * 3] * 2), RULES)
    assert isinstance(found, Continue)
    assert "last two blocks" in found.message


deltas = st.floats(min_value=-0.1, max_value=0.1)
blocks = st.lists(st.lists(st.tuples(deltas, deltas), max_size=4), max_size=10)


@given(blocks)
def test_swapped_arms_never_promote_what_was_promoted(data: list[list[tuple[float, float]]]) -> None:
    swapped = [[(-y, -g) for y, g in block] for block in data]
    found, mirrored = verdict(after(data), RULES), verdict(after(swapped), RULES)
    if isinstance(found, Promote):
        assert isinstance(mirrored, Reject)
    if isinstance(found, Reject) and found.reason is OutcomeReason.HARM_OBJECTIVE:
        assert mirrored.reason is not OutcomeReason.HARM_OBJECTIVE


@given(blocks)
def test_every_verdict_has_a_reason_and_numbers_and_ends_at_max_pairs(
    data: list[list[tuple[float, float]]],
) -> None:
    tests = after(data)
    found = verdict(tests, RULES)
    assert found.reason
    assert any(letter.isdigit() for letter in found.message)
    assert "nan" not in found.message
    if tests.n >= RULES.max_pairs:
        assert not isinstance(found, Continue)


@pytest.mark.parametrize(("effect", "low", "high"), [(0.0, 0.0, 0.02), (1.0, 0.86, 0.91)])
def test_promotions_by_18_deltas_at_an_effect_of_so_many_sd(effect: float, low: float, high: float) -> None:
    """With a guardrail at margin 3 sd: A/A promotes at most 2 %, an effect of one sd at least 86 %."""
    rng = np.random.default_rng(7)
    promoted = 0
    for _ in range(1000):
        tests = Tests.start(1.0, guardrails=[Guardrail(name="ttft", margin=3.0, s0=1.0)])
        found: object = None
        while not isinstance(found, Promote | Reject | Inconclusive):
            y, g = rng.normal(effect, 1.0, 3), rng.normal(0.0, 1.0, 3)
            tests = tests.add_block(
                [
                    PairDelta(objective=float(a), guardrails={"ttft": float(b)})
                    for a, b in zip(y, g, strict=True)
                ]
            )
            found = verdict(tests, Rules(max_pairs=18))
        promoted += isinstance(found, Promote)
    assert low <= promoted / 1000 <= high
