"""Run the setups of a sweep on this machine's cores, rows as they come.

Called by `kvtune sweep`. All setups share one copy of the trace: little work runs plain and one after the
other, much of it compiled in threads, which then run side by side because compiled code needs no interpreter.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing

from kvtune_cache.requests import Requests
from kvtune_lab.setups import Setup
from kvtune_lab.simulate import Simulator, Way, way_for
from kvtune_lab.simulation import Simulation


def run_here(requests: Requests, setups: Sequence[Setup], *, jobs: int) -> Iterator[Simulation]:
    """Simulate all setups on at most `jobs` cores; rows come in the order in which they are done."""
    simulator = Simulator(requests, way_for(len(requests.blocks) * len(setups)))
    if simulator.way is Way.PLAIN or jobs == 1:
        yield from map(simulator.simulate, setups)
        return
    from joblib import Parallel, delayed  # type: ignore[import-untyped]  # it has no types

    threads = Parallel(n_jobs=jobs, backend="threading", batch_size=1, return_as="generator_unordered")
    with closing(threads(delayed(simulator.simulate)(setup) for setup in setups)) as rows:
        yield from rows
