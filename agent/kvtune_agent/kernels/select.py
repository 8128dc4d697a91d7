"""Select the lowest-scored evictable slots on the GPU, exactly as many as wanted.

Specification: `reference.select`. A score becomes an unsigned key that orders alike. Four histograms of eight
bits each narrow down the key of the last slot that is taken; then every slot counts how many before it are
taken, which is its place in the answer. No step depends on the order in which programs run, so the same input
gives the same answer.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvtune_agent.kernels.layout import Flag, Selection, require_selectable

TILE: Final = 2048
WARPS: Final = 8
PASSES: Final = 4

BINS = tl.constexpr(256)
ALL_PASSES = tl.constexpr(PASSES)
EVICTION_BITS = tl.constexpr(int(Flag.RESIDENT | Flag.PINNED))
EVICTABLE = tl.constexpr(int(Flag.RESIDENT))


def select(scores: Tensor, flags: Tensor, wanted: Tensor, limit: int) -> Selection:
    """Choose exactly as `reference.select`, without waiting for the device."""
    require_selectable(scores, flags, wanted, limit)
    slots, device = len(scores), scores.device
    chosen = torch.full((limit,), -1, dtype=torch.int32, device=device)
    count = torch.zeros_like(wanted)
    if slots == 0 or limit == 0:
        return Selection(slots=chosen, count=count)
    tiles = triton.cdiv(slots, TILE)
    histograms = torch.zeros((PASSES, BINS.value), dtype=torch.int32, device=device)
    for number in range(PASSES):
        _histogram[(tiles,)](
            scores, flags, wanted, histograms, slots, limit, PASS=number, TILE=TILE, num_warps=WARPS
        )
    taken = torch.empty((2, tiles), dtype=torch.int32, device=device)
    _count[(tiles,)](scores, flags, wanted, histograms, taken, slots, limit, TILE=TILE)
    upto = taken.cumsum(dim=1, dtype=torch.int32)
    _compact[(tiles,)](scores, flags, wanted, histograms, taken, upto, chosen, count, slots, limit, TILE=TILE)
    return Selection(slots=chosen, count=count)


@triton.jit
def _keys(scores_ptr, flags_ptr, slots, TILE: tl.constexpr):
    """Slot numbers of this program's tile, their keys (uint32, ordered as the scores), and who may go."""
    slot = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = slot < slots
    flags = tl.load(flags_ptr + slot, mask=inside, other=0)
    bits = tl.load(scores_ptr + slot, mask=inside, other=0.0).to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    bits = tl.where(magnitude == 0, magnitude, bits)
    key = tl.where(bits == magnitude, bits ^ 0x80000000, bits ^ 0xFFFFFFFF)
    key = tl.where(magnitude > 0x7F800000, 0xFFFFFFFF, key).to(tl.uint32)
    return slot, key, inside & ((flags & EVICTION_BITS) == EVICTABLE)


@triton.jit
def _narrowed(wanted_ptr, histograms_ptr, limit, PASSES: tl.constexpr):
    """What the first PASSES histograms say of the last key taken.

    Its leading digits, and how many keys with these digits are taken; with all histograms that key itself,
    and how many of its equals are taken.
    """
    bins = tl.arange(0, BINS)
    prefix = tl.zeros([], dtype=tl.uint32)
    rest = tl.minimum(tl.maximum(tl.load(wanted_ptr), 0), limit)
    for number in tl.static_range(PASSES):
        counts = tl.load(histograms_ptr + number * BINS + bins)
        if number == 0:
            rest = tl.minimum(rest, tl.sum(counts))
        digit = tl.sum((tl.cumsum(counts) < rest).to(tl.int32))
        rest -= tl.sum(tl.where(bins < digit, counts, 0))
        prefix = (prefix << 8) | digit.to(tl.uint32)
    return prefix, rest


@triton.jit
def _histogram(
    scores_ptr, flags_ptr, wanted_ptr, histograms_ptr, slots, limit, PASS: tl.constexpr, TILE: tl.constexpr
):
    """Count the digits number PASS, from the left, of keys that begin with the digits known so far."""
    _, key, active = _keys(scores_ptr, flags_ptr, slots, TILE)
    if PASS > 0:
        prefix, _ = _narrowed(wanted_ptr, histograms_ptr, limit, PASS)
        active = active & ((key >> (32 - 8 * PASS)) == prefix)
    digit = ((key >> (24 - 8 * PASS)) & 0xFF).to(tl.int32)
    counts = tl.histogram(digit, BINS, mask=active)
    tl.atomic_add(histograms_ptr + PASS * BINS + tl.arange(0, BINS), counts, mask=counts > 0)


@triton.jit
def _count(scores_ptr, flags_ptr, wanted_ptr, histograms_ptr, taken_ptr, slots, limit, TILE: tl.constexpr):
    """Count this tile's keys below the last key taken (row 0), and its equals (row 1)."""
    _, key, active = _keys(scores_ptr, flags_ptr, slots, TILE)
    last, _ = _narrowed(wanted_ptr, histograms_ptr, limit, ALL_PASSES)
    place = taken_ptr + tl.program_id(0)
    tl.store(place, tl.sum((active & (key < last)).to(tl.int32)))
    tl.store(place + tl.num_programs(0), tl.sum((active & (key == last)).to(tl.int32)))


@triton.jit
def _compact(
    scores_ptr,
    flags_ptr,
    wanted_ptr,
    histograms_ptr,
    taken_ptr,
    upto_ptr,
    chosen_ptr,
    count_ptr,
    slots,
    limit,
    TILE: tl.constexpr,
):
    """Write each slot that is taken to its place. Of the last key's equals the lowest slots are taken."""
    slot, key, active = _keys(scores_ptr, flags_ptr, slots, TILE)
    last, equals = _narrowed(wanted_ptr, histograms_ptr, limit, ALL_PASSES)
    below = (active & (key < last)).to(tl.int32)
    equal = (active & (key == last)).to(tl.int32)
    tile, tiles = tl.program_id(0), tl.num_programs(0)
    below_before = tl.load(upto_ptr + tile) - tl.load(taken_ptr + tile) + tl.cumsum(below) - below
    equal_before = (
        tl.load(upto_ptr + tiles + tile) - tl.load(taken_ptr + tiles + tile) + tl.cumsum(equal) - equal
    )
    takes = (below > 0) | ((equal > 0) & (equal_before < equals))
    place = below_before + tl.minimum(equal_before, equals)
    tl.store(chosen_ptr + place, slot, mask=takes)
    if tile == 0:
        tl.store(count_ptr, tl.load(upto_ptr + tiles - 1) + equals)
