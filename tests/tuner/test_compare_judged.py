"""All tests of an experiment together, fed block by block."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.compare import (
    LAMBDAS,
    Guardrail,
    PairDelta,
    Tests,
)

GUARD = Guardrail(name="ttft", margin=0.02, s0=0.01)


def test_a_block_feeds_every_test_with_its_own_x() -> None:
    tests = Tests.start(0.02, dmin=0.005, guardrails=[GUARD])
    tests = tests.add_block([PairDelta(objective=0.03, guardrails={"ttft": -0.01})])
    assert tests.superior.sum_x == pytest.approx(0.025)
    assert tests.harm.sum_x == pytest.approx(-0.03)
    assert tests.guardrails[0].noninferior.sum_x == pytest.approx(0.01)
    assert tests.guardrails[0].harm.sum_x == pytest.approx(-0.01)
    assert (tests.n, tests.blocks) == (1, 1)


def test_a_missing_delta_multiplies_no_factor_in_any_test() -> None:
    tests = Tests.start(0.02, guardrails=[GUARD]).add_block([PairDelta(objective=0.03)])
    after = tests.add_block([PairDelta(objective=None, guardrails={"ttft": None}), PairDelta(objective=None)])
    assert (after.superior, after.harm, after.guardrails) == (tests.superior, tests.harm, tests.guardrails)
    assert after.recent_mean == tests.recent_mean


def test_the_recent_mean_is_over_the_pairs_of_the_last_two_blocks() -> None:
    tests = Tests.start(0.02)
    assert tests.recent_mean is None
    for block in ([9.0, 9.0], [1.0, 2.0, 3.0], [], [6.0]):
        tests = tests.add_block([PairDelta(objective=x) for x in block])
    assert tests.recent_mean == pytest.approx(3.0)


def test_a_clear_winner_is_superior_and_non_inferior() -> None:
    tests = Tests.start(0.01, guardrails=[GUARD])
    for _ in range(4):
        tests = tests.add_block([PairDelta(objective=0.05, guardrails={"ttft": 0.01})] * 3)
    found = tests.declared(0.05)
    assert found.superior
    assert found.noninferior == ("ttft",)
    assert not found.harm
    assert found.guardrail_harms == found.undecided_guardrails == ()


def test_a_clear_loser_is_declared_by_both_harm_tests() -> None:
    tests = Tests.start(0.01, guardrails=[GUARD])
    for _ in range(4):
        tests = tests.add_block([PairDelta(objective=-0.05, guardrails={"ttft": -0.09})] * 3)
    found = tests.declared(0.05)
    assert found.harm
    assert found.guardrail_harms == ("ttft",)
    assert found.undecided_guardrails == ("ttft",)
    assert not found.superior


def test_superiority_is_withheld_while_the_last_two_blocks_lose() -> None:
    tests = Tests.start(0.05)
    for x in (0.05, 0.05, 0.05, 0.05, 0.05, 0.05, -0.0001, -0.0001):
        tests = tests.add_block([PairDelta(objective=x)] * 3)
    assert tests.superior.e_value > 20.0
    assert not tests.declared(0.05).superior


@given(st.lists(st.lists(st.floats(min_value=-1.0, max_value=1.0), max_size=4), max_size=10))
def test_swapped_arms_mirror_superiority_and_harm(blocks: list[list[float]]) -> None:
    forward, swapped = Tests.start(0.05), Tests.start(0.05)
    for block in blocks:
        forward = forward.add_block([PairDelta(objective=x) for x in block])
        swapped = swapped.add_block([PairDelta(objective=-x) for x in block])
    assert swapped.superior == forward.harm
    assert swapped.harm == forward.superior


def test_a_guardrail_nobody_declared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"guardrails\.other"):
        Tests.start(0.02, guardrails=[GUARD]).add_block([PairDelta(objective=0.1, guardrails={"other": 0.1})])


@pytest.mark.parametrize(
    ("dmin", "guardrails", "message"),
    [
        (-0.1, (), "dmin"),
        (math.nan, (), "dmin"),
        (0.0, (GUARD, GUARD), "twice"),
        (0.0, (Guardrail(name="g", margin=0.0, s0=0.1),), r"guardrails\.g\.margin"),
        (0.0, (Guardrail(name="g", margin=math.inf, s0=0.1),), r"guardrails\.g\.margin"),
    ],
)
def test_settings_of_tests_are_validated(
    dmin: float, guardrails: tuple[Guardrail, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Tests.start(0.02, dmin=dmin, guardrails=guardrails)


def test_the_weights_are_those_of_the_design() -> None:
    assert LAMBDAS == (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
