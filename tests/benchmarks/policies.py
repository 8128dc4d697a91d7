"""Hit rates of all policies on the published traces, beside what is knowable and what is possible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtune_lab.explain.bound import SCHEMES, bound
from kvtune_lab.explain.tally import tallied
from kvtune_lab.readers.load import load
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator, Way
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table

TRACES = Path(__file__).parents[3] / "shared/traces"
QUICK_CAPACITIES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One trace: capacities as shares of its distinct blocks, or in blocks; what ReuseAware is to reach."""

    name: str
    file: str
    capacities: tuple[float | int, ...]
    targets: tuple[float | None, ...]
    """Percent of tokens in the last half, from cache.md; None where there is none."""


CASES = (
    Case(
        name="conversation",
        file="mooncake_conversation_trace.jsonl.gz",
        capacities=(0.01, 0.02, 0.05, 0.1, 0.2, 0.4),
        targets=(11.5, 16.0, 24.5, 31.5, None, None),
    ),
    Case(
        name="agentic (sessions spread over 24 h)",
        file="agentic_dev_requests.jsonl.gz",
        capacities=(0.002, 0.005, 0.01, 0.02, 0.05),
        targets=(23.3, 50.6, 75.6, None, None),
    ),
    Case(
        name="synthetic",
        file="mooncake_synthetic_trace.jsonl.gz",
        capacities=(0.01, 0.1, 0.4),
        targets=(7.5, 42.0, 80.0),
    ),
    Case(
        name="RAGPulse",
        file="ragpulse_0_trace.jsonl.gz",
        capacities=(20, 50, 100, 200),
        targets=(31.0, None, None, None),
    ),
)


def measure(effort: Effort) -> Iterator[Results]:
    """Give the tables after every trace; those that are not beside the checkout are passed over."""
    tables: list[Table] = []
    cases = [case for case in CASES if (TRACES / case.file).exists()]
    if effort.quick:
        cases = [case for case in cases if case.name == "RAGPulse"]
    for case in cases:
        tables.append(_table(case, effort.runs(len(case.capacities), QUICK_CAPACITIES)))
        yield Results(tables=tuple(tables), seeds="no seed", partial=len(tables) < len(cases))


def _table(case: Case, count: int) -> Table:
    loaded = load(TRACES / case.file)
    way = None if len(loaded.requests.blocks) < 100_000 else Way.COMPILED
    simulator = Simulator(loaded.requests, way)
    distinct = loaded.distinct_blocks
    sizes = [c if isinstance(c, int) else max(1, round(c * distinct)) for c in case.capacities[:count]]
    rows, rates = [], {}
    for policy in Policy:
        told(f"policies: {case.name}: {policy}")
        setups = [Setup(policy=policy, capacity_blocks=size) for size in sizes]
        rates[policy] = [simulator.simulate(setup).token_hit_rate_last_half for setup in setups]
        rows.append((str(policy), *_percents(rates[policy])))
    known = bound(tallied(loaded.requests), sizes, SCHEMES["all classes"])
    rows.insert(-1, ("bound of ReuseAware's classes, in hindsight", *_percents(known)))
    loss = max(a - b for a, b in zip(rates[Policy.LRU], rates[Policy.REUSE_AWARE], strict=True))
    return Table(
        title=f"Hit rate, % of tokens, last half: {case.name}",
        columns=("Policy", *(_head(c, size) for c, size in zip(case.capacities[:count], sizes, strict=True))),
        rows=tuple(rows),
        notes=(
            f"{simulator.requests:,} requests, {simulator.references:,} references, {distinct:,} blocks",
            _verdict(case, rates[Policy.REUSE_AWARE]),
            f"ReuseAware against LRU: at worst {-100 * loss:+.2f} points (rule: never below -0.50)",
        ),
    )


def _percents(rates: Sequence[float]) -> list[str]:
    return [f"{100 * rate:.2f}" for rate in rates]


def _head(capacity: float | int, blocks: int) -> str:
    return f"{blocks:,} blocks" if isinstance(capacity, int) else f"{100 * capacity:g} % ({blocks:,})"


def _verdict(case: Case, rates: Sequence[float]) -> str:
    """Where the targets of ReuseAware are met."""
    aims = [(100 * rate, aim) for rate, aim in zip(rates, case.targets, strict=False) if aim is not None]
    missed = [f"{rate:.2f} instead of {aim:g}" for rate, aim in aims if rate < aim]
    goals = " / ".join(f"{aim:g}" for _, aim in aims)
    return f"targets of ReuseAware: {goals}: " + (f"missed: {', '.join(missed)}" if missed else "met")
