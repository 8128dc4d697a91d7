"""`kvtune simulate` from the shell, start to end, beside the trace through libcachesim's Python plugin."""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.benchmarks.traffic import TRACE

CAPACITY, RUNS, QUICK_RUNS = 18_279, 5, 1
LIMIT_SECONDS = 3.0
PLUGIN = Path(__file__).with_name("libcachesim_plugin.py")


def measure(effort: Effort) -> Iterator[Results]:
    """Give one table: the best of some runs of each, taken in turns."""
    if not TRACE.exists():
        return
    ways: dict[str, list[str]] = {
        "kvtune simulate": [
            *("-m", "kvtune_cli", "simulate", str(TRACE)),
            *("--policy", "LRU", "--capacity", str(CAPACITY), "--json", "-"),
        ]
    }
    if find_spec("libcachesim"):
        ways["libcachesim PluginCache"] = [str(PLUGIN), str(TRACE), str(CAPACITY)]
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(effort.runs(RUNS, QUICK_RUNS)):
        for way, arguments in ways.items():
            taken[way].append(_seconds(arguments))
    yield Results(tables=(_table(taken),), seeds="no randomness")


def _seconds(arguments: Sequence[str]) -> tuple[float, float]:
    """Wall and processor seconds of one process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _table(taken: dict[str, list[tuple[float, float]]]) -> Table:
    best = {way: tuple(min(column) for column in zip(*runs, strict=True)) for way, runs in taken.items()}
    ours = best["kvtune simulate"]
    return Table(
        title="The conversation trace through LRU, from the shell",
        columns=("Way", "Wall seconds", "Processor seconds", "Processor seconds of ours per one of this"),
        rows=tuple(
            (way, f"{wall:.2f}", f"{processor:.2f}", f"{ours[1] / processor:.2f}")
            for way, (wall, processor) in best.items()
        ),
        notes=(
            f"{CAPACITY:,} blocks, best of {len(taken['kvtune simulate'])} runs in turns; goals: ours under "
            f"{LIMIT_SECONDS:g} s of wall time and under the plugin's",
            "the plugin serves single blocks and gives one figure; ours serves requests with prefixes, pins "
            "them, checks the trace and counts why blocks leave",
        ),
    )
