"""Say in plain torch what each kernel computes: the specification that the Triton kernels are compared with.

Runs on any device. Signatures, shapes, dtypes and layouts are those of the kernels.
"""

import math
from typing import Final

import torch
from torch import Tensor

from kvtune_agent.kernels.layout import (
    TICKS_PER_S,
    Classes,
    Flag,
    Mark,
    Selection,
    Slots,
    Weight,
    require_attention,
    require_movable,
    require_scorable,
    require_selectable,
)

ATTENTION_LEAST: Final = 0.1
"""What is left of a token whose attention is spread evenly (systems.md, section 3, TokenLRU)."""
STRUCTURAL_BONUS: Final = 0.3
"""What a token of a noun phrase or an entity is worth more (systems.md, section 3, TokenLRU)."""


def score(slots: Slots, classes: Classes, weights: Tensor, now_ms: Tensor) -> Tensor:
    """Score every block, free and pinned ones too: the lowest goes first.

    Per token: weights[REUSE] * reuse[class, age] + weights[SPATIAL] * spatial + weights[LIFE] * life +
    weights[ATTENTION] * attention, where life is 1 up to the window of the class, then e^(1 - age/window),
    and attention is 1/(age + 1) * max(.1, 1 - entropy) * (1 + .3 structural), with entropy 0 where it is
    unknown. A block has the mean of its tokens. A term of weight 0 is not read, so its NaN do no harm; others
    reach the score. WorkloadAware is weights (.5, .3, .2, 0), TokenLRU (0, 0, 0, 1), an index by class and
    age (1, 0, 0, 0) (systems.md, sections 3 and 4).

    weights: float32 [4] by `Weight`; now_ms: int32 [1] as `Slots.last_access_ms`. Gives float32 [blocks].
    A time after now counts as now. Raises ValueError for a wrong dtype or shape.
    """
    require_scorable(slots, classes, weights, now_ms)
    age_s = (now_ms - slots.last_access_ms).clamp(min=0).float() * (1 / TICKS_PER_S)
    rows = slots.classes.long()
    rows = torch.where((rows < 0) | (rows >= len(classes.reuse)), len(classes.reuse) - 1, rows)[:, None]
    ages = (torch.bucketize(age_s, classes.edges_s, right=True) - 1).clamp(min=0)
    window_s = classes.window_s[rows]
    fading = torch.where(window_s > 0.0, torch.exp(1.0 - age_s / window_s), 0.0)
    terms = {
        Weight.REUSE: classes.reuse[rows, ages],
        Weight.SPATIAL: slots.spatial[:, None].expand_as(age_s),
        Weight.LIFE: torch.where(age_s <= window_s, 1.0, fading),
        Weight.ATTENTION: _attention(slots, age_s),
    }
    total = sum(
        torch.where(weights[place] == 0.0, 0.0, weights[place] * term) for place, term in terms.items()
    )
    return total.mean(dim=1)


def _attention(slots: Slots, age_s: Tensor) -> Tensor:
    """What TokenLRU says of each token."""
    focus = (1.0 - slots.entropy.nan_to_num(nan=0.0)).clamp(min=ATTENTION_LEAST)
    structural = (slots.marks & Mark.STRUCTURAL).float()
    return focus * (1.0 + STRUCTURAL_BONUS * structural) / (age_s + 1.0)


def select(scores: Tensor, flags: Tensor, wanted: Tensor, limit: int) -> Selection:
    """Choose the `wanted` lowest-scored slots that are resident and not pinned, or all where there are fewer.

    Never more than `limit`, the length of the answer. Equal scores go by slot number, the lower first; -0.0
    equals 0.0; NaN goes last, after infinity, since nothing is known of it. Chosen slots come in ascending
    order.

    scores: float32 [blocks]; flags: uint8 [blocks] as `Slots.flags`; wanted: int32 [1] on the same device
    (less than 0 counts as 0). Raises ValueError for a wrong dtype or shape, or a negative limit.
    """
    require_selectable(scores, flags, wanted, limit)
    evictable = (flags & (Flag.RESIDENT | Flag.PINNED)) == Flag.RESIDENT
    candidates = evictable.nonzero().flatten()
    count = min(max(int(wanted), 0), limit, len(candidates))
    lowest = torch.argsort(scores[candidates], stable=True)[:count]
    chosen = torch.full((limit,), -1, dtype=torch.int32, device=scores.device)
    chosen[:count] = candidates[lowest].sort().values.int()
    return Selection(slots=chosen, count=torch.full_like(wanted, count))


def gather(cache: Tensor, slots: Tensor, staging: Tensor) -> None:
    """Copy blocks of the paged cache into the staging buffer, row i from slots[i].

    Rows whose slot is not a block of the cache (-1 is the padding of `select`) stay as they are.

    cache: any dtype [layers, 2, blocks, block_size, heads, head_dim], the last three dimensions contiguous;
    slots: int32 [n]; staging: same dtype, contiguous [n, layers, 2, block_size, heads, head_dim], so that a
    block is one record. Raises ValueError for a wrong dtype, shape or layout.
    """
    require_movable(cache, slots, staging)
    rows, blocks = _pairs(cache, slots)
    staging[rows] = cache[:, :, blocks].permute(2, 0, 1, 3, 4, 5)


def scatter(staging: Tensor, slots: Tensor, cache: Tensor) -> None:
    """Copy rows of the staging buffer into blocks of the paged cache, row i to slots[i].

    Rows whose slot is not a block of the cache are left out. A slot may come once only: of two rows for one
    block either may win. Shapes, dtypes, layouts and errors are those of `gather`.
    """
    require_movable(cache, slots, staging)
    rows, blocks = _pairs(cache, slots)
    cache[:, :, blocks] = staging[rows].permute(1, 2, 0, 3, 4, 5)


def _pairs(cache: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """The rows whose slot is a block of the cache, and those blocks."""
    rows = ((slots >= 0) & (slots < cache.shape[2])).nonzero().flatten()
    return rows, slots[rows].long()


def entropy(attention: Tensor, window: int) -> Tensor:
    """How evenly each KV slot is attended to over the last `window` queries: 0 by one, 1 by all alike.

    The weights that a slot receives from a query are summed over the heads, and their distribution over the
    queries has the entropy -sum(p ln p), divided by its maximum ln(window) (systems.md, sections 3 and 4). A
    slot that nobody attended to is unknown: NaN.

    attention: float16, bfloat16 or float32 [heads, queries, slots], softmaxed rows, any strides; fewer
    queries than the window are taken as they are. Gives float32 [slots]. Raises ValueError for a wrong dtype
    or shape, or a window under 2.
    """
    require_attention(attention, window)
    received = attention[:, -window:].float().sum(dim=0)
    total = received.sum(dim=0)
    shares = received / total
    nats = -torch.xlogy(shares, shares).sum(dim=0)
    return torch.where(total > 0.0, (nats / math.log(window)).clamp(0.0, 1.0), math.nan)
