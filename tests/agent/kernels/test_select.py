"""select: as many as wanted, the lowest, never a pinned one; the reference's choice for any scores."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_agent.kernels.choice import REFERENCE, TRITON, Kernels
from kvtune_agent.kernels.select import TILE
from tests.agent.kernels.tables import (
    DEVICE,
    EVICTABLE,
    PINNED,
    flags,
    integer,
    scores_with_ties,
    seeds,
    tensor,
)

both = pytest.mark.parametrize("kernels", [REFERENCE, TRITON], ids=["reference", "triton"])


def _chosen(kernels: Kernels, scores: list[float], states: list[int], wanted: int, limit: int) -> list[int]:
    selection = kernels.select(
        tensor(scores, torch.float32), tensor(states, torch.uint8), integer(wanted), limit
    )
    slots = selection.slots.tolist()
    count = int(selection.count)
    assert len(slots) == limit
    assert slots[count:] == [-1] * (limit - count)
    return slots[:count]


@both
def test_the_lowest_are_chosen_in_ascending_order_of_slots(kernels: Kernels) -> None:
    assert _chosen(kernels, [5.0, 1.0, 3.0, -2.0, 4.0], [EVICTABLE] * 5, 3, 4) == [1, 2, 3]


@both
def test_pinned_and_free_slots_are_passed_over(kernels: Kernels) -> None:
    states = [PINNED, EVICTABLE, 0, EVICTABLE, 2]

    assert _chosen(kernels, [-9.0, 1.0, -9.0, 2.0, -9.0], states, 5, 5) == [1, 3]


@both
def test_of_equal_scores_the_lowest_slots_go(kernels: Kernels) -> None:
    assert _chosen(kernels, [7.0, -0.0, 0.0, -0.0, 0.0], [EVICTABLE] * 5, 2, 2) == [1, 2]
    assert _chosen(kernels, [1.0] * 5, [EVICTABLE] * 5, 2, 4) == [0, 1]


@both
def test_a_score_that_is_not_a_number_goes_last(kernels: Kernels) -> None:
    scores = [math.nan, math.inf, -math.nan, -math.inf]

    assert _chosen(kernels, scores, [EVICTABLE] * 4, 1, 4) == [3]
    assert _chosen(kernels, scores, [EVICTABLE] * 4, 2, 4) == [1, 3]
    assert _chosen(kernels, scores, [EVICTABLE] * 4, 3, 4) == [0, 1, 3]


@both
@pytest.mark.parametrize("wanted", [0, -1, -(2**31)])
def test_nothing_is_chosen_when_nothing_is_wanted(kernels: Kernels, wanted: int) -> None:
    assert _chosen(kernels, [1.0, 2.0], [EVICTABLE] * 2, wanted, 2) == []


@both
def test_never_more_than_the_limit_or_than_there_are(kernels: Kernels) -> None:
    assert _chosen(kernels, [3.0, 2.0, 1.0], [EVICTABLE] * 3, 2**31 - 1, 2) == [1, 2]
    assert _chosen(kernels, [3.0, 2.0, 1.0], [EVICTABLE] * 3, 9, 9) == [0, 1, 2]
    assert _chosen(kernels, [3.0], [EVICTABLE], 1, 0) == []
    assert _chosen(kernels, [], [], 3, 3) == []


@settings(max_examples=40)
@given(
    table=st.lists(st.tuples(scores_with_ties, flags), max_size=40),
    wanted=st.integers(min_value=-2, max_value=45),
    limit=st.integers(min_value=0, max_value=45),
)
def test_kernel_and_reference_choose_the_same(
    table: list[tuple[float, int]], wanted: int, limit: int
) -> None:
    scores, states = [score for score, _ in table], [state for _, state in table]

    chosen = _chosen(TRITON, scores, states, wanted, limit)

    assert chosen == _chosen(REFERENCE, scores, states, wanted, limit)
    assert all(states[slot] == EVICTABLE for slot in chosen)
    assert len(chosen) == min(max(wanted, 0), limit, states.count(EVICTABLE))


@settings(max_examples=6)
@given(
    seed=seeds, slots=st.integers(1, 3 * TILE), levels=st.sampled_from([1, 7, 10**6]), share=st.floats(0, 1.1)
)
def test_the_same_over_many_tiles(seed: int, slots: int, levels: int, share: float) -> None:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(-levels, levels, (slots,), generator=random).float().to(DEVICE) / 3
    scores[torch.rand(slots, generator=random).to(DEVICE) < 0.1] = math.nan
    states = torch.randint(0, 4, (slots,), generator=random, dtype=torch.uint8).to(DEVICE)
    wanted = integer(int(slots / 4 * share))

    fast, plain = (kernels.select(scores, states, wanted, slots) for kernels in (TRITON, REFERENCE))

    assert torch.equal(fast.slots, plain.slots)
    assert torch.equal(fast.count, plain.count)


@both
def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    scores, states = tensor([1.0, 2.0], torch.float32), tensor([1, 1], torch.uint8)

    with pytest.raises(ValueError, match="limit: -1 is less than 0"):
        kernels.select(scores, states, integer(1), -1)
    with pytest.raises(ValueError, match=r"flags: shape \(1,\) is not \(2,\)"):
        kernels.select(scores, states[:1], integer(1), 1)
    with pytest.raises(ValueError, match=r"scores: torch.float64 is not torch.float32"):
        kernels.select(scores.double(), states, integer(1), 1)
    with pytest.raises(ValueError, match=r"wanted: torch.int64 is not torch.int32"):
        kernels.select(scores, states, integer(1).long(), 1)
