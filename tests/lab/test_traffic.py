"""Haste: the same requests, sooner after one another."""

from functools import partial
from itertools import islice

import pytest

from kvtune_lab.generator import generate
from kvtune_lab.traffic import Request, hastened


def test_haste_shrinks_pauses_and_changes_nothing_else() -> None:
    source = partial(generate, requests_per_second=2.0, seed=1, hinted_share=0.5)
    slow = list(islice(source(), 200))
    fast = list(islice(hastened(source(), 10.0), 200))

    assert [request.arrival_s for request in fast] == [request.arrival_s / 10 for request in slow]
    assert [request[1:-1] for request in fast] == [request[1:-1] for request in slow]
    assert [seconds(request) * 10 for request in fast] == pytest.approx([seconds(r) for r in slow])


def seconds(request: Request) -> float:
    hint = request.hint
    return hint.expected_return_seconds or 0.0 if hint is not None else 0.0


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_no_haste_is_refused_by_name(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        hastened([], factor)
