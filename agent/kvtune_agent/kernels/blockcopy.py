"""Copy blocks between the paged cache and a staging buffer.

Specification: `reference.gather` and `reference.scatter`. A block's layer is one contiguous row in both, so
that every program moves one piece of a row in the widest words that all addresses allow. Memory-bound:
nothing is computed.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvtune_agent.kernels.layout import require_movable

BYTES_PER_PROGRAM: Final = 16384
WARPS: Final = 8
WORDS: Final = (torch.int64, torch.int32, torch.int16, torch.int8)


def gather(cache: Tensor, slots: Tensor, staging: Tensor) -> None:
    """Copy blocks into the staging buffer, row i from slots[i], as `reference.gather`."""
    require_movable(cache, slots, staging)
    _copy(cache, slots, staging, to_staging=True)


def scatter(staging: Tensor, slots: Tensor, cache: Tensor) -> None:
    """Copy rows of the staging buffer into blocks, row i to slots[i], as `reference.scatter`."""
    require_movable(cache, slots, staging)
    _copy(cache, slots, staging, to_staging=False)


def _copy(cache: Tensor, slots: Tensor, staging: Tensor, *, to_staging: bool) -> None:
    if cache.numel() == 0 or staging.numel() == 0:
        return
    paged, rows = _in_words(cache.flatten(3), staging.flatten(3))
    layers, _, blocks, words = paged.shape
    tile = min(triton.next_power_of_2(words), BYTES_PER_PROGRAM // paged.element_size())
    _move[(len(slots) * layers * 2, triton.cdiv(words, tile))](
        paged,
        slots,
        rows,
        blocks,
        words,
        layers * 2,
        *paged.stride()[:3],
        TO_STAGING=to_staging,
        TILE=tile,
        num_warps=WARPS,
    )


def _in_words(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors seen as the widest integers that divide every row and every address."""
    for word in WORDS:
        if all(_divides(word.itemsize, tensor) for tensor in tensors):
            return tuple(tensor.view(word) for tensor in tensors)
    raise ValueError(f"cache: {tensors[0].dtype} is not made of whole bytes")


def _divides(width: int, tensor: Tensor) -> bool:
    size = tensor.element_size()
    spans = (tensor.data_ptr(), tensor.shape[-1] * size, *(stride * size for stride in tensor.stride()[:-1]))
    return width >= size and all(span % width == 0 for span in spans)


@triton.jit
def _move(
    cache_ptr,
    slots_ptr,
    staging_ptr,
    blocks,
    words,
    planes,
    layer_stride,
    half_stride,
    block_stride,
    TO_STAGING: tl.constexpr,
    TILE: tl.constexpr,
):
    """Move TILE words of one plane (keys or values of one layer) of one block."""
    pair = tl.program_id(0)
    row, plane = pair // planes, pair % planes
    slot = tl.load(slots_ptr + row).to(tl.int64)
    if (slot >= 0) & (slot < blocks):
        word = tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = word < words
        paged = cache_ptr + (plane // 2).to(tl.int64) * layer_stride + (plane % 2).to(tl.int64) * half_stride
        paged = paged + slot * block_stride + word
        staged = staging_ptr + pair.to(tl.int64) * words + word
        if TO_STAGING:
            tl.store(staged, tl.load(paged, mask=inside), mask=inside)
        else:
            tl.store(paged, tl.load(staged, mask=inside), mask=inside)
