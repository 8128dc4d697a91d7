"""Work spread over processes."""

import math

import pytest

from kvtune_lab.workers import Workers


@pytest.mark.parametrize("processes", [1, 2])
def test_answers_come_in_the_order_of_the_arguments(processes: int) -> None:
    done: list[None] = []
    with Workers(math.sqrt, processes) as workers:
        assert workers.map([1.0, 4.0, 9.0, 16.0, 25.0], lambda: done.append(None)) == [
            1.0,
            2.0,
            3.0,
            4.0,
            5.0,
        ]
        assert workers.map([], lambda: done.append(None)) == []
        assert workers.map([36.0], lambda: done.append(None)) == [6.0]
    assert len(done) == 6


@pytest.mark.parametrize("processes", [1, 2])
def test_what_the_function_raises_is_raised_here(processes: int) -> None:
    with (
        Workers(math.sqrt, processes) as workers,
        pytest.raises(ValueError, match=r"math domain|nonnegative"),
    ):
        workers.map([4.0, -1.0], lambda: None)


def test_no_process_is_refused() -> None:
    with pytest.raises(ValueError, match="processes: 0 is less than 1"):
        Workers(math.sqrt, 0)
