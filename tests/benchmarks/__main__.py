"""Measure the figures of docs/benchmarks.md: `python -m tests.benchmarks [NAME ...] [--quick]`.

Tables are printed, and written into the document as results come; --quick takes tiny sizes and writes
nothing.
"""

import argparse
import sys
import time
from datetime import UTC, datetime

from rich.console import Console

from tests.benchmarks import (
    cache_speed,
    eprocess,
    fetch,
    kubernetes,
    kubernetes_soak,
    lab_speed,
    policies,
    replay_arms,
    robustness,
    safety,
    search,
    throughput,
    tick,
    verdicts,
)
from tests.benchmarks.document import PATH, Provenance, section, written
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Benchmark, Effort
from tests.benchmarks.table import shown

BENCHMARKS = {
    "eprocess": Benchmark(title="The sign e-process", measure=eprocess.measure),
    "verdicts": Benchmark(title="Verdicts through the whole plan", measure=verdicts.measure),
    "arms": Benchmark(title="Other tests on the same replayed A/A traffic", measure=replay_arms.measure),
    "search": Benchmark(title="Time until within 2 % of the best", measure=search.measure),
    "safety": Benchmark(title="Breaker, watch and washout", measure=safety.measure),
    "tick": Benchmark(title="One tick of the control plane", measure=tick.measure),
    "fetch": Benchmark(title="A thousand agents", measure=fetch.measure),
    "throughput": Benchmark(title="Speed of a replay", measure=throughput.measure),
    "cache": Benchmark(title="Speed and memory of the cache core", measure=cache_speed.measure),
    "lab_speed": Benchmark(title="The laboratory from the shell", measure=lab_speed.measure),
    "policies": Benchmark(title="Hit rates of the policies", measure=policies.measure),
    "robustness": Benchmark(title="ReuseAware where it is hard not to lose", measure=robustness.measure),
    "kubernetes": Benchmark(title="The operator in a cluster", measure=kubernetes.measure),
    "soak": Benchmark(title="The operator's memory over time", measure=kubernetes_soak.measure),
}
BY_NAME_ONLY = ("kubernetes", "soak")
"""Not among all: they need a control plane (`make bench-kubernetes`)."""


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, or all that need no cluster."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing written")
    parser.add_argument("--processes", type=int, default=2, help="processes to use (default 2)")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"{unknown[0]}: not one of {', '.join(BENCHMARKS)}")
    effort = Effort(quick=asked.quick, processes=asked.processes)
    for name in asked.names or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
        _run(name, effort)
    return 0


def _run(name: str, effort: Effort) -> None:
    benchmark, console, started = BENCHMARKS[name], Console(), time.monotonic()
    latest = None
    for latest in benchmark.measure(effort):
        if effort.quick:
            continue
        origin = Provenance(
            name=name,
            title=benchmark.title,
            day=datetime.now(tz=UTC).date(),
            seeds=latest.seeds,
            seconds=time.monotonic() - started,
            partial=latest.partial,
        )
        written(PATH, name, section(origin, latest.tables), tuple(BENCHMARKS))
    for table in latest.tables if latest else ():
        shown(table, console)
    told(f"{name}: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
