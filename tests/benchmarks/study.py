"""What a benchmark is to the command: a name, a title, and a function that gives tables as results come."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.benchmarks.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure."""

    quick: bool = False
    processes: int = 2

    def runs(self, full: int, quick: int) -> int:
        """A number of runs."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All tables of a benchmark as they stand."""

    tables: Sequence[Table]
    seeds: str
    partial: bool = False


Measure: TypeAlias = Callable[[Effort], Iterator[Results]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark of the command."""

    title: str
    measure: Measure
