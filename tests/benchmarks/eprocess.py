"""The e-process's check values: P(declared by a number of pairs), beside the figures of the design."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.tuner.eprocess_runs import declared_by

RUNS, QUICK_RUNS, CHUNK, SEED = 100_000, 4_000, 20_000, 4
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: what is drawn, the first scale, and what the design says by pairs (None: it does not)."""

    what: str
    draw: Draw
    s0: float
    single: dict[int, float]
    thirds: dict[int, float]


def _normal(mean: float) -> Draw:
    return lambda rng, shape: rng.normal(mean, 1.0, shape)


def _student(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.standard_t(2, shape)


CASES = (
    Case(
        what="null, normal",
        draw=_normal(0.0),
        s0=1.0,
        single={8: 0.002, 16: 0.012, 24: 0.017, 72: 0.027},
        thirds={9: 0.002, 18: 0.010, 24: 0.013, 72: 0.021},
    ),
    Case(
        what="null, Student t2",
        draw=_student,
        s0=1.0,
        single={8: 0.002, 16: 0.012, 24: 0.018, 72: 0.028},
        thirds={},
    ),
    Case(
        what="null, normal, s0 ten times too small",
        draw=_normal(0.0),
        s0=0.1,
        single={8: 0.018, 16: 0.025, 24: 0.027, 72: 0.032},
        thirds={},
    ),
    Case(what="true effect -0.5 sd", draw=_normal(-0.5), s0=1.0, single={72: 0.0001}, thirds={}),
    Case(
        what="true effect 0.5 sd",
        draw=_normal(0.5),
        s0=1.0,
        single={8: 0.043, 16: 0.267, 24: 0.449, 72: 0.939},
        thirds={9: 0.060, 18: 0.283, 24: 0.413, 72: 0.931},
    ),
    Case(
        what="true effect 1 sd",
        draw=_normal(1.0),
        s0=1.0,
        single={8: 0.292, 16: 0.852, 24: 0.976, 72: 1.0},
        thirds={9: 0.381, 18: 0.891, 24: 0.972, 72: 1.0},
    ),
    Case(
        what="true effect 2 sd",
        draw=_normal(2.0),
        s0=1.0,
        single={8: 0.942, 16: 1.0},
        thirds={9: 0.976, 18: 1.0},
    ),
    Case(
        what="true effect 1 sd, s0 three times too large",
        draw=_normal(1.0),
        s0=3.0,
        single={16: 0.742},
        thirds={},
    ),
)
PAIRS = (8, 16, 24, 72)
THIRDS = (9, 18, 24, 72)


def measure(effort: Effort) -> Iterator[Results]:
    """Give the table after every row."""
    runs = effort.runs(RUNS, QUICK_RUNS)
    single: list[tuple[str, ...]] = []
    thirds: list[tuple[str, ...]] = []
    for number, case in enumerate(CASES, start=1):
        by_single, by_thirds = _declared(case, runs)
        single.append((case.what, *(_cell(by_single[p], case.single.get(p)) for p in PAIRS)))
        thirds.append((case.what, *(_cell(by_thirds[p], case.thirds.get(p)) for p in THIRDS)))
        yield Results(
            tables=(
                _table("P(declared by pair), judged after every pair", runs, PAIRS, single),
                _table("P(declared by pair), judged after every third pair", runs, THIRDS, thirds),
            ),
            seeds=f"seed {SEED}",
            partial=number < len(CASES),
        )


def _declared(case: Case, runs: int) -> tuple[dict[int, float], dict[int, float]]:
    """Shares declared by pairs, for single pairs and for blocks of three, on the same draws."""
    rng = np.random.default_rng(SEED)
    counts: dict[int, dict[int, int]] = {1: dict.fromkeys(PAIRS, 0), 3: dict.fromkeys(THIRDS, 0)}
    done = 0
    while done < runs:
        size = min(CHUNK, runs - done)
        x = case.draw(rng, (size, 72))
        for block, by in counts.items():
            first = declared_by(x, s0=case.s0, block=block)
            for pairs in by:
                by[pairs] += int((first <= pairs).sum())
        done += size
    one, three = ({pairs: count / runs for pairs, count in counts[block].items()} for block in (1, 3))
    return one, three


def _cell(measured: float, design: float | None) -> str:
    return f"{measured:.4f}" + (f" ({design:g})" if design is not None else "")


def _table(title: str, runs: int, pairs: tuple[int, ...], rows: list[tuple[str, ...]]) -> Table:
    return Table(
        title=title,
        columns=("x, in units of its sd", *(str(p) for p in pairs)),
        rows=tuple(rows),
        notes=(f"{runs} runs, alpha .05; in brackets the figure of the design (experiments.md 4)",),
    )
