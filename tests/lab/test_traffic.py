"""Haste: the same requests, sooner after one another."""

from itertools import islice

import pytest

from kvtune_lab.generator import generate
from kvtune_lab.traffic import hastened


def test_haste_shrinks_pauses_and_changes_nothing_else() -> None:
    slow = list(islice(generate(requests_per_second=2.0, seed=1), 200))
    fast = list(islice(hastened(generate(requests_per_second=2.0, seed=1), 10.0), 200))

    assert [request.arrival_s for request in fast] == [request.arrival_s / 10 for request in slow]
    assert [request[1:] for request in fast] == [request[1:] for request in slow]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_no_haste_is_refused_by_name(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        hastened([], factor)
