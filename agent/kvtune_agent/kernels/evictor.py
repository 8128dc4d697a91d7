"""Evict blocks in one replay: score, select and gather, captured as a CUDA graph once per size bucket.

The caller changes the table, the classes and the cache in place; their storage must stay where it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from kvtune_agent.kernels.choice import Kernels
from kvtune_agent.kernels.layout import Classes, Slots, Weight, require_scorable, wrapped

BUCKET_LEAST: Final = 16
"""Fewer blocks are moved in the same time: a launch costs more than they do."""
WARM_UPS: Final = 3
"""Runs before a capture, which may not compile or load kernels (PyTorch, "CUDA semantics", CUDA Graphs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """What was chosen and copied; valid until the next eviction of the same evictor.

    slots: int32 [bucket], the first `count` are slot numbers, ascending, the others -1; count: int32 [1].
    staging: [bucket, layers, 2, block_size, heads, head_dim], row i is slot i of `slots`; rows from `count`
    on hold nothing of meaning.
    """

    slots: Tensor
    count: Tensor
    staging: Tensor


def buckets(largest: int) -> tuple[int, ...]:
    """For how many blocks there are replays: powers of two from 16, and the largest number itself."""
    powers = (BUCKET_LEAST << doublings for doublings in range(largest.bit_length()))
    return (*(power for power in powers if power < largest), largest)


def bucket(wanted: int, largest: int) -> int:
    """The smallest bucket with room for `wanted` blocks. Raises ValueError unless 0 <= wanted <= largest."""
    if not 0 <= wanted <= largest:
        raise ValueError(f"wanted: {wanted} is not in 0 to {largest}")
    return next(size for size in buckets(largest) if size >= wanted)


class Evictor:
    """Chooses the lowest-scored blocks of one table and copies them out of one cache.

    It changes neither the table nor the cache: the caller frees the slots once the staging buffer is saved.
    One caller at a time, on one stream.
    """

    def __init__(
        self, cache: Tensor, slots: Slots, classes: Classes, *, largest: int, kernels: Kernels
    ) -> None:
        """Make the buffers; `largest` is how many blocks one eviction may take.

        cache: [layers, 2, blocks, block_size, heads, head_dim]. Raises ValueError if the table has other
        blocks than the cache, if parts are on different devices, or if `largest` is less than 1.
        """
        if largest < 1:
            raise ValueError(f"largest: {largest} is less than 1")
        layers, halves, blocks, *row = cache.shape
        if len(slots.flags) != blocks:
            raise ValueError(f"slots: {len(slots.flags)} blocks are not the {blocks} of the cache")
        self._cache, self._slots, self._classes, self._kernels = cache, slots, classes, kernels
        self._largest = largest
        self._weights = torch.zeros(len(Weight), dtype=torch.float32, device=cache.device)
        self._now_ms = torch.zeros(1, dtype=torch.int32, device=cache.device)
        self._wanted = torch.zeros(1, dtype=torch.int32, device=cache.device)
        self._staging = torch.zeros((largest, layers, halves, *row), dtype=cache.dtype, device=cache.device)
        self._recorded: dict[int, Callable[[], Evicted]] = {}
        require_scorable(slots, classes, self._weights, self._now_ms)

    @property
    def recorded(self) -> frozenset[int]:
        """The buckets that are ready to be replayed."""
        return frozenset(self._recorded)

    def weigh(self, weights: Sequence[float]) -> None:
        """Take other weights, in the order of `Weight`, from now on. Nothing is captured anew."""
        if len(weights) != len(Weight):
            raise ValueError(f"weights: {len(weights)} are not {len(Weight)}")
        self._weights.copy_(torch.tensor(weights, dtype=torch.float32))

    def warm(self) -> None:
        """Record every bucket now, so that no eviction waits for a compiler or a capture."""
        for size in reversed(buckets(self._largest)):
            self._ready(size)

    def evict(self, wanted: int, now_ms: int) -> Evicted:
        """Choose the lowest-scored evictable blocks at this time and copy them to the staging buffer.

        Does not wait for the device. now_ms: milliseconds of the clock of `Slots.last_access_ms`. Raises
        ValueError if more are wanted than `largest`.
        """
        replay = self._ready(bucket(wanted, self._largest))
        self._now_ms.fill_(wrapped(now_ms))
        self._wanted.fill_(wanted)
        return replay()

    def _ready(self, size: int) -> Callable[[], Evicted]:
        if size not in self._recorded:
            self._wanted.zero_()  # the runs before a capture choose and copy nothing
            self._recorded[size] = _recorded(lambda: self._step(size), self._cache.device)
        return self._recorded[size]

    def _step(self, size: int) -> Evicted:
        """The work that is recorded: shapes depend on the bucket alone."""
        scores = self._kernels.score(self._slots, self._classes, self._weights, self._now_ms)
        chosen = self._kernels.select(scores, self._slots.flags, self._wanted, size)
        staging = self._staging[:size]
        self._kernels.gather(self._cache, chosen.slots, staging)
        return Evicted(slots=chosen.slots, count=chosen.count, staging=staging)


def _recorded(step: Callable[[], Evicted], device: torch.device) -> Callable[[], Evicted]:
    """The step captured as a CUDA graph after warming up; on another device the step itself."""
    if device.type != "cuda":
        return step
    current, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            step()
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # an engine's other threads go on
        result = step()

    def replay() -> Evicted:
        graph.replay()
        return result

    return replay
