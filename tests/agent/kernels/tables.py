"""Tables, caches and hypothesis strategies for the tests of the kernels."""

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

from kvtune_agent.kernels.layout import Classes, Flag, Slots

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

EVICTABLE = int(Flag.RESIDENT)
PINNED = int(Flag.RESIDENT | Flag.PINNED)

AWKWARD_SCORES = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -math.nan, 1e-45, -1e-45, 3.4e38)

scores_with_ties = st.one_of(st.sampled_from(AWKWARD_SCORES), st.floats(width=32))
flags = st.sampled_from([EVICTABLE, EVICTABLE, EVICTABLE, 0, int(Flag.PINNED), PINNED])
seeds = st.integers(min_value=0, max_value=2**32)


def tensor(values: object, dtype: torch.dtype) -> Tensor:
    """A tensor where the tests run."""
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def integer(value: int) -> Tensor:
    """A number as the kernels take it from the device."""
    return tensor([value], torch.int32)


def table(seed: int, blocks: int, tokens: int, classes: int) -> Slots:
    """A random table, with classes that do not exist, unknown entropies, and accesses after now (65 s)."""
    random = torch.Generator().manual_seed(seed)
    entropy = torch.rand((blocks, tokens), generator=random)
    entropy[torch.rand((blocks, tokens), generator=random) < 0.2] = math.nan
    return Slots(
        last_access_ms=torch.randint(-600_000, 70_000, (blocks, tokens), generator=random)
        .to(torch.int32)
        .to(DEVICE),
        entropy=entropy.to(DEVICE),
        marks=torch.randint(0, 4, (blocks, tokens), generator=random, dtype=torch.uint8).to(DEVICE),
        classes=torch.randint(-1, classes + 2, (blocks,), generator=random, dtype=torch.int32).to(DEVICE),
        spatial=torch.rand(blocks, generator=random).to(DEVICE),
        flags=torch.randint(0, 4, (blocks,), generator=random, dtype=torch.uint8).to(DEVICE),
    )


def learned(seed: int, classes: int, ages: int) -> Classes:
    """Random values by class and age, with a class whose window is 0."""
    random = torch.Generator().manual_seed(seed)
    edges = [0.0, *(0.75 * 2 ** (age / 1.6) for age in range(ages - 1))]
    window_s = torch.rand(classes, generator=random) * 300
    window_s[0] = 0.0
    return Classes(
        reuse=torch.rand((classes, ages), generator=random).to(DEVICE),
        edges_s=tensor(edges, torch.float32),
        window_s=window_s.to(DEVICE),
    )


def paged(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A cache of random bytes, so that every bit of every dtype counts."""
    random = torch.Generator().manual_seed(seed)
    width = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * width), generator=random, dtype=torch.uint8)
    return raw.view(dtype).to(DEVICE)


def raw(values: Tensor) -> Tensor:
    """The bytes of a tensor: NaN equal themselves there."""
    return values.contiguous().view(torch.uint8)
