"""Score blocks on the GPU in one pass over their metadata. Specification: `reference.score`."""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvtune_agent.kernels import reference
from kvtune_agent.kernels.layout import TICKS_PER_S, Classes, Mark, Slots, Weight, require_scorable

TOKENS_PER_PROGRAM: Final = 1024
"""Enough for eight tokens a thread with four warps, few enough to fill a GPU from 1e5 tokens on."""

SECONDS_PER_TICK = tl.constexpr(1 / TICKS_PER_S)
ATTENTION_LEAST = tl.constexpr(reference.ATTENTION_LEAST)
STRUCTURAL_BONUS = tl.constexpr(reference.STRUCTURAL_BONUS)
STRUCTURAL = tl.constexpr(int(Mark.STRUCTURAL))
REUSE = tl.constexpr(int(Weight.REUSE))
SPATIAL = tl.constexpr(int(Weight.SPATIAL))
LIFE = tl.constexpr(int(Weight.LIFE))
ATTENTION = tl.constexpr(int(Weight.ATTENTION))


def score(slots: Slots, classes: Classes, weights: Tensor, now_ms: Tensor) -> Tensor:
    """Score every block as `reference.score`, up to rounding. Gives float32 [blocks]."""
    require_scorable(slots, classes, weights, now_ms)
    blocks, tokens = slots.last_access_ms.shape
    scores = torch.empty(blocks, dtype=torch.float32, device=slots.flags.device)
    if blocks == 0:
        return scores
    width = triton.next_power_of_2(tokens)
    tile = max(1, TOKENS_PER_PROGRAM // width)
    _score[(triton.cdiv(blocks, tile),)](
        slots.last_access_ms,
        slots.entropy,
        slots.marks,
        slots.classes,
        slots.spatial,
        classes.reuse,
        classes.edges_s,
        classes.window_s,
        weights,
        now_ms,
        scores,
        blocks,
        tokens,
        len(classes.reuse),
        AGES=len(classes.edges_s),
        TILE=tile,
        WIDTH=width,
    )
    return scores


@triton.jit
def _score(
    last_access_ptr,
    entropy_ptr,
    marks_ptr,
    classes_ptr,
    spatial_ptr,
    reuse_ptr,
    edges_ptr,
    window_ptr,
    weights_ptr,
    now_ptr,
    scores_ptr,
    blocks,
    tokens,
    classes,
    AGES: tl.constexpr,
    TILE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Score TILE blocks of up to WIDTH tokens."""
    block = tl.program_id(0) * TILE + tl.arange(0, TILE)
    token = tl.arange(0, WIDTH)
    inside = block < blocks
    cell = block.to(tl.int64)[:, None] * tokens + token[None, :]
    known = inside[:, None] & (token < tokens)[None, :]

    ticks = tl.load(now_ptr) - tl.load(last_access_ptr + cell, mask=known, other=0)
    age_s = tl.maximum(ticks, 0).to(tl.float32) * SECONDS_PER_TICK
    row = tl.load(classes_ptr + block, mask=inside, other=0)
    row = tl.where((row < 0) | (row >= classes), classes - 1, row)
    total = tl.zeros([TILE, WIDTH], dtype=tl.float32)

    # Branches on a weight are the same for all threads: what weighs nothing is neither read nor computed.
    weight = tl.load(weights_ptr + REUSE)
    if weight != 0.0:
        age = tl.zeros([TILE, WIDTH], dtype=tl.int32)
        for later in range(1, AGES):
            age += (age_s >= tl.load(edges_ptr + later)).to(tl.int32)
        total += weight * tl.load(reuse_ptr + row[:, None] * AGES + age, mask=known, other=0.0)

    weight = tl.load(weights_ptr + SPATIAL)
    if weight != 0.0:
        total += weight * tl.load(spatial_ptr + block, mask=inside, other=0.0)[:, None]

    weight = tl.load(weights_ptr + LIFE)
    if weight != 0.0:
        window_s = tl.load(window_ptr + row, mask=inside, other=1.0)[:, None]
        fading = tl.exp(1.0 - age_s / tl.where(window_s > 0.0, window_s, 1.0))
        total += weight * tl.where(age_s <= window_s, 1.0, tl.where(window_s > 0.0, fading, 0.0))

    weight = tl.load(weights_ptr + ATTENTION)
    if weight != 0.0:
        entropy = tl.load(entropy_ptr + cell, mask=known, other=0.0)
        marks = tl.load(marks_ptr + cell, mask=known, other=0)
        focus = tl.where(entropy == entropy, tl.maximum(1.0 - entropy, ATTENTION_LEAST), 1.0)
        structural = (marks & STRUCTURAL).to(tl.float32)
        total += weight * focus * (1.0 + STRUCTURAL_BONUS * structural) / (age_s + 1.0)

    mean = tl.sum(tl.where(known, total, 0.0), axis=1) / tokens
    tl.store(scores_ptr + block, mean, mask=inside)
