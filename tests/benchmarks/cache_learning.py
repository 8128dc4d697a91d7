"""Block references a second of ReuseAware, learning included, on the traces where they are at hand."""

import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.names import REUSE_AWARE
from kvtune_cache.requests import Requests, serve_all
from kvtune_cache.rules import Rules
from kvtune_lab.compiled import as_arrays, compiled
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import as_lists, as_requests
from tests.benchmarks.table import Table

TRACES = Path(__file__).parents[3] / "shared/traces"
REPEATS = 3
PLAIN_REFERENCES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trace, a share of its distinct blocks as the capacity, and the goal in millions a second."""

    name: str
    file: str
    share: float
    goal: float


CASES = (
    Case(name="conversation", file="mooncake_conversation_trace.jsonl.gz", share=0.05, goal=3.0),
    Case(name="agentic", file="agentic_dev_requests.jsonl.gz", share=0.01, goal=5.0),
)


def learning_tables() -> tuple[Table, ...]:
    """Measure the traces that are beside the checkout; no table where there is none."""
    rows = [_row(case) for case in CASES if (TRACES / case.file).exists()]
    if not rows:
        return ()
    table = Table(
        title="Block references a second of ReuseAware, learning included, one core",
        columns=("Trace", "Capacity, blocks", "Compiled, M/s", "Goal, M/s", "On lists, us a reference"),
        rows=tuple(rows),
        notes=(
            f"processor time; compiled: the fastest of {REPEATS} runs over the whole trace; lists: one run "
            f"over the first requests, of {PLAIN_REFERENCES:,} references, fitted more often than others",
            "further goals: 10 M/s compiled, 10 us on lists",
        ),
    )
    return (table,)


def _row(case: Case) -> tuple[str, ...]:
    requests = as_requests(*load(TRACES / case.file).requests)
    distinct = int(max(requests.blocks)) + 1
    rules = Rules(REUSE_AWARE, max(1, round(case.share * distinct)))
    run = compiled(serve_all, policy=REUSE_AWARE)
    seconds, empty = [], as_arrays(plain_cache(distinct, REUSE_AWARE))
    for _ in range(REPEATS + 1):
        cache = deepcopy(empty)
        found: Any = np.zeros(len(requests.times), np.int32)
        started = time.process_time()
        run(cache, rules, requests, found)
        seconds.append(time.process_time() - started)
    rate = len(requests.blocks) / min(seconds[1:]) / 1e6
    return (
        case.name,
        f"{rules.capacity:,}",
        f"{rate:.1f}",
        f"{case.goal:g}",
        f"{_plain_microseconds(as_lists(_first(requests)), distinct, rules):.1f}",
    )


def _first(requests: Requests) -> Requests:
    """Take the first requests of a trace, up to so many references."""
    number = int(np.searchsorted(np.asarray(requests.starts), PLAIN_REFERENCES))
    count = requests.starts[number]
    return Requests(
        requests.starts[: number + 1],
        requests.blocks[:count],
        requests.tokens[:count],
        requests.times[:number],
        requests.outputs[:number],
        requests.kinds[:number],
        requests.hints[:number],
    )


def _plain_microseconds(requests: Requests, distinct: int, rules: Rules) -> float:
    cache = plain_cache(distinct, REUSE_AWARE)
    count = len(requests.starts) - 1
    started = time.process_time()
    serve_all(cache, rules, requests, [0] * count)
    return 1e6 * (time.process_time() - started) / requests.starts[count]
