"""Attention entropy of KV slots on the GPU, in one pass over the weights.

Specification: `reference.entropy`.
"""

import math
from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvtune_agent.kernels.layout import require_attention

TILE: Final = 128
"""One slot a thread with four warps: each row is read in pieces of 256 bytes or more."""


def entropy(attention: Tensor, window: int) -> Tensor:
    """How evenly each KV slot is attended to over the last queries: `reference.entropy` up to rounding."""
    require_attention(attention, window)
    recent = attention[:, -window:]
    heads, queries, slots = recent.shape
    evenness = torch.full((slots,), math.nan, dtype=torch.float32, device=attention.device)
    if heads == 0 or queries == 0 or slots == 0:
        return evenness
    _entropy[(triton.cdiv(slots, TILE),)](
        recent, evenness, slots, heads, queries, *recent.stride(), 1 / math.log(window), TILE=TILE
    )
    return evenness


@triton.jit
def _entropy(
    attention_ptr,
    evenness_ptr,
    slots,
    heads,
    queries,
    head_stride,
    query_stride,
    slot_stride,
    per_maximum,
    TILE: tl.constexpr,
):
    """Entropy of TILE slots: with weights w that sum to S, -sum(w/S ln(w/S)) = ln S - sum(w ln w) / S."""
    slot = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = slot < slots
    line = attention_ptr + slot.to(tl.int64) * slot_stride
    total = tl.zeros([TILE], dtype=tl.float32)
    logs = tl.zeros([TILE], dtype=tl.float32)
    for _ in range(queries):
        received = tl.zeros([TILE], dtype=tl.float32)
        cell = line
        for _ in range(heads):
            received += tl.load(cell, mask=inside, other=0.0).to(tl.float32)
            cell += head_stride
        line += query_stride
        total += received
        logs += received * tl.log(tl.where(received > 0.0, received, 1.0))
    attended = total > 0.0
    total = tl.where(attended, total, 1.0)
    nats = tl.log(total) - logs / total
    share = tl.minimum(tl.maximum(nats * per_maximum, 0.0), 1.0)
    tl.store(evenness_ptr + slot, tl.where(attended, share, float("nan")), mask=inside)
