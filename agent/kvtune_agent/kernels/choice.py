"""Choose how kernels run: in Triton where tensors are on a GPU, else in plain torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from kvtune_agent.kernels import attention, blockcopy, reference, score, select
from kvtune_agent.kernels.layout import Classes, Selection, Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """One way to run every kernel. What each means is in `reference`."""

    score: Callable[[Slots, Classes, Tensor, Tensor], Tensor]
    select: Callable[[Tensor, Tensor, Tensor, int], Selection]
    gather: Callable[[Tensor, Tensor, Tensor], None]
    scatter: Callable[[Tensor, Tensor, Tensor], None]
    entropy: Callable[[Tensor, int], Tensor]


REFERENCE: Final = Kernels(
    score=reference.score,
    select=reference.select,
    gather=reference.gather,
    scatter=reference.scatter,
    entropy=reference.entropy,
)
TRITON: Final = Kernels(
    score=score.score,
    select=select.select,
    gather=blockcopy.gather,
    scatter=blockcopy.scatter,
    entropy=attention.entropy,
)


def kernels_for(device: torch.device) -> Kernels:
    """The kernels for tensors on this device."""
    return TRITON if device.type == "cuda" else REFERENCE
