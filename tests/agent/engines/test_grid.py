"""The grid of times at which counters are kept."""

from array import array

import pytest

from kvtune_agent.engines.grid import GridRows, grid_at_or_before


def test_rows_older_than_what_is_kept_are_dropped() -> None:
    rows = GridRows(600)
    for at in range(0, 1005, 5):
        rows.close(at, array("d", [at]))

    assert (rows.oldest_at, rows.newest_at, len(rows)) == (400, 1000, 121)
    assert rows.row(395) is None
    assert rows.row_at_or_after(0) == (400, array("d", [400]))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 0), (4.999, 0), (5, 5), (1_900_000_003.5, 1_900_000_000)]
)
def test_the_grid_has_steps_of_five_seconds(seconds: float, expected: int) -> None:
    assert grid_at_or_before(seconds) == expected
