"""Block references a second of the cache core, beside libCacheSim in the same run, and bytes per block."""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.requests import serve_stream
from kvtune_cache.rules import Rules
from kvtune_lab.compiled import as_arrays, compiled
from tests.benchmarks.cache_learning import learning_tables
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table

REFERENCES, QUICK_REFERENCES = 10_000_000, 200_000
PLAIN_REFERENCES, QUICK_PLAIN_REFERENCES = 1_000_000, 20_000
DISTINCT, SHARE, SEED, REPEATS = 1_000_000, 10, 0, 3
PEERS = {Eviction.LRU: "LRU", Eviction.SIEVE: "Sieve", Eviction.S3FIFO: "S3FIFO", Eviction.ARC: "ARC"}
"""What the other side calls the same algorithm."""

Blocks: TypeAlias = "NDArray[np.uint32]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of the fastest of several runs, and the share of references that were hit."""

    seconds: float
    hits: float


def zipf(count: int, distinct: int) -> Blocks:
    """References to numbered blocks, number k asked for in proportion to 1 / (k + 1)."""
    weights = 1 / np.arange(1, distinct + 1)
    steps = np.cumsum(weights) / weights.sum()
    drawn = np.searchsorted(steps, np.random.default_rng(SEED).random(count))
    return drawn.astype(np.uint32)


def fastest(run: Callable[[], float], repeats: int = REPEATS) -> Timed:
    """Time a run several times; it gives its share of hits."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        hits = run()
        seconds.append(time.perf_counter() - started)
    return Timed(seconds=min(seconds), hits=hits)


def ours(blocks: Blocks, policy: Eviction, capacity: int) -> Timed:
    """The compiled core on arrays; compilation and the making of tables are not timed."""
    rules, run = Rules(int(policy), capacity), compiled(serve_stream, policy=int(policy))
    made = [as_arrays(plain_cache(DISTINCT)) for _ in range(REPEATS)]
    run(as_arrays(plain_cache(1)), rules, np.zeros(1, np.uint32))  # type: ignore[arg-type]
    return fastest(lambda: run(made.pop(), rules, blocks) / len(blocks))  # type: ignore[arg-type]


def plain(blocks: Blocks, policy: Eviction, capacity: int) -> Timed:
    """The same source on lists, as an engine's process runs it."""
    rules, numbers = Rules(int(policy), capacity), blocks.tolist()
    made = plain_cache(DISTINCT)
    return fastest(lambda: serve_stream(made, rules, numbers) / len(numbers), 1)


def theirs(trace: Path, name: str, capacity: int, count: int) -> Timed:
    """libCacheSim's process_trace on the same references in its own binary format."""
    import libcachesim

    def run() -> float:
        reader = libcachesim.TraceReader(str(trace), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        missed, _ = getattr(libcachesim, name)(capacity).process_trace(reader)
        return 1 - float(missed)

    return fastest(run)


def written(blocks: Blocks, path: Path) -> None:
    """Write references as libCacheSim's oracleGeneral: second, id from 1, size 1, next use not known."""
    row = np.dtype([("second", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows = np.zeros(len(blocks), row)
    rows["second"], rows["id"], rows["size"], rows["next"] = np.arange(len(blocks)) // 1000, blocks + 1, 1, -1
    rows.tofile(path)


def array_bytes(parts: Any) -> int:
    """Bytes of all arrays of a cache."""
    return sum(array_bytes(p) if isinstance(p, tuple) else getattr(p, "nbytes", 0) for p in parts)


def list_bytes(blocks: int, policy: Eviction) -> int:
    """Bytes that a cache of lists takes, its numbers included once they are large."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    cache: Cache = plain_cache(blocks, int(policy))
    rules = Rules(int(policy), max(1, blocks // SHARE))
    serve_stream(cache, rules, list(range(blocks)))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken


def measure(effort: Effort) -> Iterator[Results]:
    """Give the tables after every row."""
    blocks = zipf(effort.runs(REFERENCES, QUICK_REFERENCES), DISTINCT)
    few = blocks[: effort.runs(PLAIN_REFERENCES, QUICK_PLAIN_REFERENCES)]
    capacity = DISTINCT // SHARE
    rows: list[tuple[str, ...]] = []
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "zipf.oracleGeneral"
        written(blocks, trace)
        for policy, peer in PEERS.items():
            mine = ours(blocks, policy, capacity)
            other = theirs(trace, peer, capacity, len(blocks)) if find_spec("libcachesim") else None
            rows.append(_row(policy, len(blocks), mine, other, plain(few, policy, capacity), len(few)))
            last = len(rows) == len(PEERS)
            learning = learning_tables() if last and not effort.quick else ()
            tables = (_table(rows), *learning, _memory())
            yield Results(tables=tables, seeds=f"seed {SEED}", partial=not last)


def _row(
    policy: Eviction, count: int, mine: Timed, other: Timed | None, lists: Timed, few: int
) -> tuple[str, ...]:
    compared = (
        ("not installed", "", "")
        if other is None
        else (
            f"{count / other.seconds / 1e6:.1f}",
            f"{other.seconds / mine.seconds:.1f}",
            f"{100 * other.hits:.4f}",
        )
    )
    rate, ratio, hits = compared
    return (
        policy.name,
        f"{count / mine.seconds / 1e6:.1f}",
        rate,
        ratio,
        f"{1e6 * lists.seconds / few:.2f}",
        f"{100 * mine.hits:.4f}",
        hits,
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(
        title="Block references a second, one core, 10 M references by Zipf(1.0), cache 10 %",
        columns=(
            "Policy",
            "Compiled, M/s",
            "libCacheSim, M/s",
            "Ratio",
            "On lists, us a reference",
            "Hits, %",
            "Hits of libCacheSim, %",
        ),
        rows=tuple(rows),
        notes=(
            f"the fastest of {REPEATS} runs each, side by side in one process; compilation, and the making "
            "of tables and files, are not counted; lists: one run over the first tenth",
            "goals: LRU at least 20 M/s; all at least 10 times libCacheSim's process_trace",
        ),
    )


def _per_block(policy: Eviction, blocks: int) -> float:
    """Bytes of arrays that one more block takes."""
    few, many = (array_bytes(as_arrays(plain_cache(n, int(policy)))) for n in (1_000, blocks))
    return (many - few) / (blocks - 1_000)


def _memory() -> Table:
    blocks = 100_000
    return Table(
        title="Bytes per tracked block",
        columns=("Policy", "Arrays", "Lists"),
        rows=tuple(
            (policy.name, f"{_per_block(policy, blocks):.1f}", f"{list_bytes(blocks, policy) / blocks:.0f}")
            for policy in Eviction
        ),
        notes=("goals: arrays 64 (LRU) and 96 (ReuseAware); in an engine's process 400, its own keys apart",),
    )
