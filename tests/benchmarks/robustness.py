"""ReuseAware against LRU where it is hard not to lose: generated streams, and traces shuffled and mixed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kvtune_cache.requests import Requests
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator, Way
from tests.benchmarks.parallel import told
from tests.benchmarks.robustness_traces import SEED, TRACES, mixtures
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.cache.reuse_aware.rivals import STREAMS, capacities, longest

LRU_SHARES = (0.3, 0.6, 0.8, 0.9, 0.96)
TRACE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
QUICK = 1
RULE_POINTS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One stream at one capacity: hit rates of the last half, percent of tokens."""

    name: str
    capacity: int
    lru: float
    ours: float

    @property
    def gain(self) -> float:
        """How far ours is above LRU, points."""
        return self.ours - self.lru


def measure(effort: Effort) -> Iterator[Results]:
    """Give the tables after every stream; traces that are not beside the checkout are passed over."""
    made: list[tuple[str, Mapping[str, Callable[[], Requests]]]] = [("Generated streams", STREAMS)]
    if TRACES.exists() and not effort.quick:
        made.append(("Published traces, shuffled and mixed", mixtures()))
    pairs: dict[str, list[list[Pair]]] = {title: [] for title, _ in made}
    left = sum(len(streams) for _, streams in made)
    for title, streams in made:
        for name in list(streams)[: effort.runs(len(streams), QUICK)]:
            told(f"robustness: {name}")
            pairs[title].append(_pairs(name, streams[name](), title == made[0][0]))
            left -= 1
            tables = tuple(_table(head, rows) for head, rows in pairs.items() if rows)
            yield Results(tables=tables, seeds=f"seeds 11 to 49 and {SEED}", partial=left > 0)


def _pairs(name: str, requests: Requests, generated: bool) -> list[Pair]:
    simulator = Simulator(requests, Way.COMPILED)

    def rate(policy: Policy, size: int) -> float:
        setup = Setup(policy=policy, capacity_blocks=size)
        return 100 * simulator.simulate(setup).token_hit_rate_last_half

    if generated:
        sizes = capacities(requests, LRU_SHARES, lambda size: rate(Policy.LRU, size))
    else:
        distinct, least = int(max(requests.blocks)) + 1, longest(requests)
        sizes = sorted({max(least, round(share * distinct)) for share in TRACE_SHARES})
    return [
        Pair(name=name, capacity=size, lru=rate(Policy.LRU, size), ours=rate(Policy.REUSE_AWARE, size))
        for size in sizes
    ]


def _table(title: str, rows: list[list[Pair]]) -> Table:
    every = [pair for row in rows for pair in row]
    worst = min(every, key=lambda pair: pair.gain)
    under = [pair for pair in every if pair.gain < -RULE_POINTS]
    return Table(
        title=f"{title}: hit rate, % of tokens, last half",
        columns=("Stream", "Blocks, worst", "LRU", "ReuseAware", "Difference", "Best difference"),
        rows=tuple(_row(row) for row in rows),
        notes=(
            f"{len(every)} pairs of stream and capacity, each of at least the largest request and .2 % of "
            "the blocks; a row shows the one where ReuseAware is worst against LRU",
            f"worst of all: {worst.name} at {worst.capacity:,} blocks, {worst.gain:+.2f} points",
            f"rule: never below -{RULE_POINTS:.2f}: "
            + (f"broken by {len(under)} pairs" if under else "kept by all"),
        ),
    )


def _row(row: list[Pair]) -> tuple[str, ...]:
    worst, best = (choose(row, key=lambda pair: pair.gain) for choose in (min, max))
    return (
        worst.name,
        f"{worst.capacity:,}",
        f"{worst.lru:.2f}",
        f"{worst.ours:.2f}",
        f"{worst.gain:+.2f}",
        f"{best.gain:+.2f}",
    )
