"""The evidence as people see it follows from the ledger."""

import pytest

from kvtune_tuner.evidence import evidence
from tests.tuner.ledgers import experiment, with_block


def test_effect_interval_and_e_value_are_those_of_the_deltas() -> None:
    found = experiment()
    for block in range(3):
        found = with_block(found, block, [0.03, 0.05, 0.04])
    seen = evidence(found)
    assert seen.deltas == 9 and seen.effect == pytest.approx(0.04)
    assert seen.threshold == pytest.approx(20.0)
    assert seen.e_value is not None and seen.e_value > 20
    assert seen.p_value is not None and seen.p_value < 0.05
    assert seen.interval is not None and seen.interval[0] < 0.04 < seen.interval[1]
    assert seen.candidate["objective"] - seen.control["objective"] == pytest.approx(0.04)
    assert seen.candidate["ttft"] == pytest.approx(0.8)
    assert seen.guardrails["ttft"] == pytest.approx(0.0, abs=1e-9)


def test_an_effect_is_not_shifted_by_the_smallest_worthwhile_one() -> None:
    found = experiment()
    found = with_block(found, 0, [0.02, 0.02, 0.02])
    assert evidence(found).effect == pytest.approx(0.02)


def test_before_the_first_block_nothing_is_said() -> None:
    seen = evidence(experiment())
    assert seen.deltas == 0 and seen.effect is None and seen.interval is None


def test_beyond_the_ring_the_interval_is_the_asymptotic_one_and_still_finite() -> None:
    found = experiment(max_pairs=1000)
    for block in range(40):
        found = with_block(found, block, [0.01, -0.01, 0.0])
    seen = evidence(found)
    assert found.status.checkpoint is not None
    assert seen.deltas == 120 and seen.interval is not None
    assert seen.interval[0] < 0.0 < seen.interval[1] and seen.interval[1] - seen.interval[0] < 0.02


def test_an_e_value_beyond_all_bounds_stays_a_number() -> None:
    found = experiment(max_pairs=1000)
    for block in range(30):
        found = with_block(found, block, [0.05, 0.05, 0.05])
    assert evidence(found).e_value == 1e12
