"""gather and scatter: every byte of the chosen blocks and no other, in every dtype and outer layout."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_agent.kernels.choice import REFERENCE, TRITON, Kernels
from tests.agent.kernels.tables import DEVICE, paged, raw, seeds, tensor

both = pytest.mark.parametrize("kernels", [REFERENCE, TRITON], ids=["reference", "triton"])

shapes = st.tuples(*(st.integers(1, most) for most in (3, 9, 5, 3, 6)))
dtypes = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.uint8, torch.float8_e4m3fn])


@both
def test_a_row_of_staging_is_one_block_with_all_its_layers(kernels: Kernels) -> None:
    cache = torch.arange(2 * 2 * 3 * 1 * 1 * 2, dtype=torch.float32, device=DEVICE).reshape(2, 2, 3, 1, 1, 2)
    staging = torch.zeros((2, 2, 2, 1, 1, 2), device=DEVICE)

    kernels.gather(cache, tensor([2, 0], torch.int32), staging)

    assert staging[0].flatten().tolist() == [4.0, 5.0, 10.0, 11.0, 16.0, 17.0, 22.0, 23.0]
    assert staging[1].flatten().tolist() == [0.0, 1.0, 6.0, 7.0, 12.0, 13.0, 18.0, 19.0]


@both
@pytest.mark.parametrize("slot", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_slot_that_is_no_block_moves_nothing(kernels: Kernels, slot: int) -> None:
    cache = paged(1, (1, 2, 3, 2, 1, 4), torch.float32)
    before, staging = cache.clone(), torch.full((1, 1, 2, 2, 1, 4), 7.0, device=DEVICE)

    kernels.gather(cache, tensor([slot], torch.int32), staging)
    kernels.scatter(staging, tensor([slot], torch.int32), cache)

    assert (staging == 7.0).all()
    assert torch.equal(raw(cache), raw(before))


@settings(max_examples=25)
@given(seed=seeds, shape=shapes, dtype=dtypes, rows=st.integers(0, 9))
def test_kernel_and_reference_move_the_same(
    seed: int, shape: tuple[int, int, int, int, int], dtype: torch.dtype, rows: int
) -> None:
    layers, blocks, *row = shape
    random = torch.Generator().manual_seed(seed)
    slots = (torch.randperm(blocks + 4, generator=random)[:rows].int() - 2).to(DEVICE)
    cache = paged(seed, (layers, 2, blocks, *row), dtype)
    fast, plain = (paged(seed + 1, (len(slots), layers, 2, *row), dtype) for _ in range(2))

    TRITON.gather(cache, slots, fast)
    REFERENCE.gather(cache, slots, plain)
    assert torch.equal(raw(fast), raw(plain))

    fast_cache, plain_cache = (paged(seed + 2, (layers, 2, blocks, *row), dtype) for _ in range(2))
    TRITON.scatter(fast, slots, fast_cache)
    REFERENCE.scatter(plain, slots, plain_cache)
    assert torch.equal(raw(fast_cache), raw(plain_cache))


@both
@pytest.mark.parametrize("order", ["blocks first", "every other block", "an odd address"])
def test_what_was_gathered_and_scattered_is_as_before_in_any_outer_layout(
    kernels: Kernels, order: str
) -> None:
    match order:
        case "blocks first":
            cache = paged(5, (6, 3, 2, 4, 2, 3), torch.float16).permute(1, 2, 0, 3, 4, 5)
        case "every other block":
            cache = paged(5, (3, 2, 12, 4, 2, 3), torch.float16)[:, :, ::2]
        case _:
            cache = paged(5, (1 + math.prod((3, 2, 6, 4, 2, 3)),), torch.float16)[1:].view(3, 2, 6, 4, 2, 3)
    before, slots = cache.clone(), tensor([5, 0, 2], torch.int32)
    staging = torch.zeros((3, 3, 2, 4, 2, 3), dtype=torch.float16, device=DEVICE)

    kernels.gather(cache, slots, staging)
    cache[:, :, slots.long()] = 0
    kernels.scatter(staging, slots, cache)

    assert torch.equal(raw(staging[1]), raw(before[:, :, 0]))
    assert torch.equal(raw(cache), raw(before))


def test_a_row_longer_than_one_program_takes_is_moved_whole() -> None:
    cache = paged(9, (1, 2, 2, 16, 8, 80), torch.float32)
    staging = torch.zeros((1, 1, 2, 16, 8, 80), device=DEVICE)

    TRITON.gather(cache, tensor([1], torch.int32), staging)

    assert torch.equal(raw(staging[0]), raw(cache[:, :, 1]))


@both
def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    cache, slots = paged(1, (1, 2, 3, 2, 1, 4), torch.float32), tensor([0], torch.int32)
    staging = torch.zeros((1, 1, 2, 2, 1, 4), device=DEVICE)

    with pytest.raises(ValueError, match=r"cache: shape \(1, 3, 2, 1, 4\) is not \[layers, 2, blocks"):
        kernels.gather(cache[:, 0], slots, staging)
    with pytest.raises(ValueError, match="do not keep a block's layer in one piece"):
        kernels.gather(cache.transpose(3, 5), slots, staging)
    with pytest.raises(ValueError, match=r"staging: torch.float16 is not torch.float32"):
        kernels.scatter(staging.half(), slots, cache)
    with pytest.raises(ValueError, match=r"staging: shape \(1, 1, 2, 2, 1, 4\) is not \(2, 1, 2, 2, 1, 4\)"):
        kernels.scatter(staging, slots.repeat(2), cache)
