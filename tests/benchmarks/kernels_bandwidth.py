"""Measure how fast the kernels move memory, beside the device's own copy in the same run.

Bytes are what a kernel must read plus what it must write, each once. Only a GPU's times mean anything: in
Triton's interpreter the same code runs a thousand times slower.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from kvtune_agent.kernels.choice import TRITON
from kvtune_agent.kernels.evictor import Evictor
from kvtune_agent.kernels.layout import Classes, Flag, Slots

COPY_SHARE_LEAST: Final = 0.85
"""Of the device's own copy, for gather and scatter (systems.md, section 4)."""

Timed = Callable[[Callable[[], object]], float]
"""How many seconds a piece of work takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is measured: a paged cache, how much of it moves, a table of slots, attention weights."""

    layers: int
    blocks: int
    block_size: int
    heads: int
    head_dim: int
    moved: int
    slots: int
    queries: int
    positions: int


FULL: Final = Sizes(
    layers=32,
    blocks=4096,
    block_size=16,
    heads=8,
    head_dim=128,
    moved=1024,
    slots=1 << 20,
    queries=64,
    positions=1 << 17,
)
"""A cache of 8 GiB in blocks of 2 MiB (Llama 3 8B in bfloat16), 2 GiB moved: far beyond any L2."""

TINY: Final = Sizes(
    layers=1, blocks=5, block_size=2, heads=1, head_dim=4, moved=3, slots=40, queries=3, positions=20
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured piece of work."""

    name: str
    bytes: int
    seconds: float

    @property
    def gb_per_s(self) -> float:
        """Bandwidth in 1e9 bytes per second."""
        return self.bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of one run."""

    copy: Figure
    moves: tuple[Figure, ...]
    others: tuple[Figure, ...]
    stepwise_s: float
    replayed_s: float

    @property
    def reached(self) -> bool:
        """Whether gather and scatter are as fast as they should be."""
        return all(move.gb_per_s >= COPY_SHARE_LEAST * self.copy.gb_per_s for move in self.moves)


def timed_by_events(work: Callable[[], object]) -> float:
    """The median of 30 runs between CUDA events, after 5 to warm up."""
    for _ in range(5):
        work()
    taken_ms = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken_ms.append(begin.elapsed_time(end))
    return statistics.median(taken_ms) / 1e3


def measured(sizes: Sizes, device: str, timed: Timed) -> Figures:
    """Measure everything once, on random data."""
    torch.manual_seed(1)
    with torch.device(device):
        row = (sizes.block_size, sizes.heads, sizes.head_dim)
        cache = torch.empty((sizes.layers, 2, sizes.blocks, *row), dtype=torch.bfloat16).normal_()
        chosen = torch.randperm(sizes.blocks)[: sizes.moved].to(torch.int32)
        staging = torch.zeros((sizes.moved, sizes.layers, 2, *row), dtype=torch.bfloat16)
        table, classes = _table(sizes.slots, 16), _classes()
        weights = torch.tensor([0.5, 0.3, 0.2, 1.0])
        now_ms, wanted = (torch.tensor([value], dtype=torch.int32) for value in (10**6, sizes.slots // 10))
        attention = torch.rand((sizes.heads, sizes.queries, sizes.positions), dtype=torch.float32)
        attention = attention.softmax(dim=2).to(torch.bfloat16)
    other = torch.empty_like(staging)
    scores = TRITON.score(table, classes, weights, now_ms)
    moved_bytes = 2 * staging.numel() * staging.element_size()
    stepwise, replayed = _eviction(cache, classes, sizes.moved, timed)
    return Figures(
        copy=_figure("copy by the device", moved_bytes, timed, lambda: other.copy_(staging)),
        moves=(
            _figure("gather", moved_bytes, timed, lambda: TRITON.gather(cache, chosen, staging)),
            _figure("scatter", moved_bytes, timed, lambda: TRITON.scatter(staging, chosen, cache)),
        ),
        others=(
            _figure(
                "score",
                sizes.slots * (16 * 9 + 13),
                timed,
                lambda: TRITON.score(table, classes, weights, now_ms),
            ),
            _figure(
                "select a tenth",
                sizes.slots * 5 + sizes.slots // 10 * 4,
                timed,
                lambda: TRITON.select(scores, table.flags, wanted, sizes.slots // 10),
            ),
            _figure(
                "entropy",
                attention.numel() * 2 + sizes.positions * 4,
                timed,
                lambda: TRITON.entropy(attention, sizes.queries),
            ),
        ),
        stepwise_s=stepwise,
        replayed_s=replayed,
    )


def _figure(name: str, size_bytes: int, timed: Timed, work: Callable[[], object]) -> Figure:
    return Figure(name=name, bytes=size_bytes, seconds=timed(work))


def _eviction(cache: torch.Tensor, classes: Classes, largest: int, timed: Timed) -> tuple[float, float]:
    """Seconds of one small eviction, step by step and as a replayed graph."""
    with torch.device(cache.device):
        table = _table(cache.shape[2], 1)
    evictor = Evictor(cache, table, classes, largest=largest, kernels=TRITON)
    evictor.weigh((0.5, 0.3, 0.2, 0.0))
    evictor.warm()
    wanted = min(8, largest)
    evictor.evict(wanted, 10**6)
    size = min(evictor.recorded)
    return timed(lambda: evictor._step(size)), timed(lambda: evictor.evict(wanted, 10**6))


def _table(slots: int, tokens: int) -> Slots:
    """A table on the default device of which every slot is evictable."""
    return Slots(
        last_access_ms=torch.randint(0, 10**6, (slots, tokens), dtype=torch.int32),
        entropy=torch.rand((slots, tokens)),
        marks=torch.randint(0, 2, (slots, tokens), dtype=torch.uint8),
        classes=torch.randint(0, 32, (slots,), dtype=torch.int32),
        spatial=torch.rand(slots),
        flags=torch.full((slots,), int(Flag.RESIDENT), dtype=torch.uint8),
    )


def _classes() -> Classes:
    return Classes(
        reuse=torch.rand((32, 30)),
        edges_s=torch.tensor([0.0, *(0.75 * 2 ** (age / 1.6) for age in range(29))]),
        window_s=torch.rand(32) * 300,
    )


def lines(figures: Figures) -> list[str]:
    """The figures as text."""
    shown = [f"{'':20} {'GB/s':>9} {'of the copy':>12} {'ms':>9}"]
    shown += [
        f"{figure.name:20} {figure.gb_per_s:9.1f} {figure.gb_per_s / figures.copy.gb_per_s:12.1%} "
        f"{figure.seconds * 1e3:9.3f}"
        for figure in (figures.copy, *figures.moves, *figures.others)
    ]
    shown.append(
        f"an eviction of few blocks: {figures.stepwise_s * 1e6:.0f} us step by step, "
        f"{figures.replayed_s * 1e6:.0f} us as a graph"
    )
    verdict = "reached" if figures.reached else "MISSED"
    shown.append(f"gather and scatter at {COPY_SHARE_LEAST:.0%} of the device's own copy: {verdict}")
    return shown
