"""The knee of a curve."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_lab.capacity.knee import Knee, knee


def test_the_knee_of_two_straight_lines_is_where_they_meet() -> None:
    found = knee([0, 10, 20, 30, 40], [0, 40, 80, 90, 100])
    assert found is not None
    assert found.index == 2
    assert found.sharpness == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("capacities", "rates"),
    [
        ([0, 1, 2, 3], [0.0, 0.1, 0.2, 0.3]),
        ([0, 1, 2, 3], [0.5, 0.5, 0.5, 0.5]),
        ([0, 1, 2, 3], [0.0, 0.0, 0.1, 1.0]),
        ([0, 1], [0.0, 1.0]),
        ([5, 5, 5], [0.0, 0.1, 0.2]),
    ],
)
def test_a_line_a_plain_and_a_curve_that_only_steepens_have_none(
    capacities: list[float], rates: list[float]
) -> None:
    found = knee(capacities, rates)
    assert found is None or found.sharpness < 1e-12


@given(st.lists(st.floats(0, 1), min_size=3, max_size=30))
def test_a_knee_is_on_the_curve_and_not_at_its_ends(rates: list[float]) -> None:
    found = knee(range(len(rates)), sorted(rates))
    assert found is None or isinstance(found, Knee)
    assert found is None or 0 < found.index < len(rates) - 1
