"""Say how block tables, caches and staging buffers lie in memory, and refuse what does not fit.

A block is one row of the paged cache and one row of the table: slot number x is block x in both.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

import torch
from torch import Tensor

TICKS_PER_S: Final = 1000
"""Times are milliseconds in int32 that wrap around: of any clock, ages up to 24.8 days are told."""


class Flag(IntFlag):
    """Bits of `Slots.flags`."""

    RESIDENT = 1
    PINNED = 2


class Mark(IntFlag):
    """Bits of `Slots.marks`."""

    STRUCTURAL = 1


class Weight(IntEnum):
    """Places in the weights of a score, a float32 tensor [4]."""

    REUSE = 0
    SPATIAL = 1
    LIFE = 2
    ATTENTION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """What is known of each block, struct of arrays.

    `tokens` is the block size, or 1 where nothing is known by token.

    last_access_ms: int32 [blocks, tokens], milliseconds modulo 2^32.
    entropy: float32 [blocks, tokens], attention entropy in [0, 1]; NaN where the engine does not give it.
    marks: uint8 [blocks, tokens], bits of `Mark`.
    classes: int32 [blocks], row of `Classes`.
    spatial: float32 [blocks], share of the prompt that matched, in [0, 1].
    flags: uint8 [blocks], bits of `Flag`; a slot without RESIDENT is free.
    """

    last_access_ms: Tensor
    entropy: Tensor
    marks: Tensor
    classes: Tensor
    spatial: Tensor
    flags: Tensor

    def __post_init__(self) -> None:
        """Raise ValueError unless shapes, dtypes and devices are as above."""
        blocks, tokens = self.last_access_ms.shape
        for name, dtype, shape in (
            ("last_access_ms", torch.int32, (blocks, tokens)),
            ("entropy", torch.float32, (blocks, tokens)),
            ("marks", torch.uint8, (blocks, tokens)),
            ("classes", torch.int32, (blocks,)),
            ("spatial", torch.float32, (blocks,)),
            ("flags", torch.uint8, (blocks,)),
        ):
            require(name, getattr(self, name), dtype, shape, self.flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """What a policy has learned of classes of blocks. A class beyond the table counts as the last one.

    reuse: float32 [classes, ages], worth of a block by class and age: a probability of reuse, or an index.
    edges_s: float32 [ages], where each age begins, in seconds, ascending, the first one 0.
    window_s: float32 [classes], how long a block of this class is wholly alive after an access, in seconds.
    """

    reuse: Tensor
    edges_s: Tensor
    window_s: Tensor

    def __post_init__(self) -> None:
        """Raise ValueError unless shapes, dtypes and devices are as above."""
        classes, ages = self.reuse.shape
        if classes == 0 or ages == 0:
            raise ValueError(f"reuse: shape ({classes}, {ages}) has no class or no age")
        require("reuse", self.reuse, torch.float32, (classes, ages), self.reuse)
        require("edges_s", self.edges_s, torch.float32, (ages,), self.reuse)
        require("window_s", self.window_s, torch.float32, (classes,), self.reuse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Chosen slots.

    slots: int32 [limit], the first `count` are slot numbers, ascending; the others are -1.
    count: int32 [1], on the same device, so that nobody has to wait for it.
    """

    slots: Tensor
    count: Tensor


def wrapped(now_ms: int) -> int:
    """Milliseconds of any clock as the int32 of `Slots.last_access_ms`."""
    return (now_ms + 2**31) % 2**32 - 2**31


def require(name: str, tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...], beside: Tensor) -> None:
    """Raise ValueError unless it is contiguous, of this type and shape, and on one device with `beside`."""
    if tensor.device != beside.device:
        raise ValueError(f"{name}: {tensor.device} is not {beside.device}, where the rest is")
    if tensor.dtype != dtype:
        raise ValueError(f"{name}: {tensor.dtype} is not {dtype}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not {shape}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: strides {tensor.stride()} are not contiguous")


def require_scorable(slots: Slots, classes: Classes, weights: Tensor, now_ms: Tensor) -> None:
    """Raise ValueError unless a table, what is known of classes, weights and a time go together."""
    require("reuse", classes.reuse, torch.float32, tuple(classes.reuse.shape), slots.flags)
    require("weights", weights, torch.float32, (len(Weight),), slots.flags)
    require("now_ms", now_ms, torch.int32, (1,), slots.flags)


def require_selectable(scores: Tensor, flags: Tensor, wanted: Tensor, limit: int) -> None:
    """Raise ValueError unless scores, flags, a number wanted and its limit go together."""
    require("scores", scores, torch.float32, (scores.numel(),), scores)
    require("flags", flags, torch.uint8, (scores.numel(),), scores)
    require("wanted", wanted, torch.int32, (1,), scores)
    if limit < 0:
        raise ValueError(f"limit: {limit} is less than 0")


def require_movable(cache: Tensor, slots: Tensor, staging: Tensor) -> None:
    """Raise ValueError unless a paged cache, slots and a staging buffer go together."""
    if cache.dim() != 6 or cache.shape[1] != 2:
        raise ValueError(
            f"cache: shape {tuple(cache.shape)} is not [layers, 2, blocks, block_size, heads, head_dim]"
        )
    if cache.numel() and not cache[0, 0, :1].is_contiguous():
        raise ValueError(f"cache: strides {cache.stride()} do not keep a block's layer in one piece")
    layers, _, _, *row = cache.shape
    require("slots", slots, torch.int32, (slots.numel(),), cache)
    require("staging", staging, cache.dtype, (slots.numel(), layers, 2, *row), cache)


def require_attention(attention: Tensor, window: int) -> None:
    """Raise ValueError unless these are attention weights and a window whose entropy has a maximum."""
    if attention.dim() != 3 or not attention.dtype.is_floating_point:
        raise ValueError(
            f"attention: {attention.dtype} {tuple(attention.shape)} is not floating [heads, queries, slots]"
        )
    if window < 2:
        raise ValueError(f"window: {window} is less than 2")
