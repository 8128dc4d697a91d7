"""The watch after a promotion: disasters revert, noise does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.sli import Missing, MissingReason
from kvtune_tuner.watch import Keep, Revert, Unknown, Wait, WatchRule, revert_threshold, watch_verdict

RULE = WatchRule(windows=2, epochs=12, sd_delta=0.018)
LOST = Missing(reason=MissingReason.NO_TRAFFIC, message="no traffic")


def test_the_threshold_is_three_standard_errors_and_at_least_two_points() -> None:
    assert revert_threshold(2, 12, 0.018) == pytest.approx(
        3 * math.sqrt(1 / 2 + 1 / 12) * math.sqrt(2) * 0.018
    )
    assert revert_threshold(2, 12, 0.001) == 0.02
    assert revert_threshold(5, 12, 0.018) < revert_threshold(2, 12, 0.018)


def test_a_disaster_reverts_with_its_numbers() -> None:
    found = watch_verdict([-0.27, -0.25], 0.0, RULE)
    assert isinstance(found, Revert)
    assert "-0.2600 over 2 windows" in found.message


def test_the_pairs_own_difference_is_taken_off() -> None:
    assert isinstance(watch_verdict([-0.1, -0.1], -0.1, RULE), Keep)
    assert isinstance(watch_verdict([0.0, 0.0], 0.1, RULE), Revert)


def test_nothing_is_decided_before_all_windows_are_over() -> None:
    assert isinstance(watch_verdict([-0.5], 0.0, RULE), Wait)
    assert isinstance(watch_verdict([], 0.0, RULE), Wait)


def test_a_missing_window_widens_the_threshold_and_never_counts_as_zero() -> None:
    loss = -revert_threshold(2, 12, 0.018) - 0.001
    assert isinstance(watch_verdict([loss, loss], 0.0, RULE), Revert)
    assert isinstance(watch_verdict([loss, LOST], 0.0, RULE), Keep)
    assert isinstance(watch_verdict([-0.3, LOST], 0.0, RULE), Revert)


def test_windows_without_any_data_neither_pass_nor_fail() -> None:
    assert isinstance(watch_verdict([LOST, LOST], 0.0, RULE), Unknown)


def test_noise_of_the_size_measured_does_not_revert() -> None:
    rng = np.random.default_rng(10)
    sd = math.sqrt(2.0) * RULE.sd_delta
    reverts = {
        loss: sum(
            isinstance(
                watch_verdict(
                    rng.normal(loss, sd, 2).tolist(), float(rng.normal(0.0, sd / math.sqrt(12))), RULE
                ),
                Revert,
            )
            for _ in range(2000)
        )
        / 2000
        for loss in (0.0, -0.04, -0.10, -0.26)
    }
    assert reverts[0.0] < 0.005
    assert 0.03 < reverts[-0.04] < 0.4
    assert reverts[-0.10] > 0.75
    assert reverts[-0.26] == 1.0


@pytest.mark.parametrize(
    ("windows", "epochs", "sd"), [(0, 1, 0.1), (1, 0, 0.1), (1, 1, -0.1), (1, 1, math.nan), (1, 1, math.inf)]
)
def test_a_rule_that_makes_no_sense_is_refused(windows: int, epochs: int, sd: float) -> None:
    with pytest.raises(ValueError, match="watch"):
        revert_threshold(windows, epochs, sd)


@pytest.mark.parametrize(("differences", "own"), [([math.nan, 0.0], 0.0), ([0.0, 0.0], math.inf)])
def test_a_difference_that_is_no_number_is_refused(differences: list[float], own: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        watch_verdict(differences, own, RULE)


@given(
    st.lists(st.floats(min_value=-1, max_value=1), min_size=2, max_size=5),
    st.floats(min_value=0, max_value=1),
)
def test_a_greater_loss_never_turns_revert_into_keep(differences: list[float], more: float) -> None:
    if isinstance(watch_verdict(differences, 0.0, RULE), Revert):
        assert isinstance(watch_verdict([value - more for value in differences], 0.0, RULE), Revert)
