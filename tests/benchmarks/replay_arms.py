"""Four ways to judge an A/A comparison on the same replayed traffic.

Six serving models run one configuration; nothing ever changes, so every win is false. Request-level tests
see each request's share of hit tokens; the e-processes see hit rates of pairs. Fixed arms keep the first
coin of a pair, crossover tosses one per block and swaps within it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvtune_cache.serving import ServingModel
from kvtune_lab.sticky import StickyAssignment
from kvtune_tuner.assign import coin
from kvtune_tuner.compare import EProcess, declared, s0_from_run_in
from tests.benchmarks.parallel import results
from tests.benchmarks.replay_pool import WARM_SECONDS
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table, share
from tests.benchmarks.traffic import AGENTS, CHAT_1

RUNS, QUICK_RUNS = 50, 2
WASHOUT_SECONDS, WINDOW_SECONDS = 30.0, 120.0
RUN_IN_BLOCKS, BLOCKS, QUICK_BLOCKS = 2, 24, 6
PAIRS = tuple((first, first + 1) for first in range(0, AGENTS, 2))
Z_ONE_SIDED, Z_TWO_SIDED = 1.6449, 1.96
"""Alpha .05."""

REQUESTS_Z, REQUESTS_Z_CROSSOVER = "z test on requests, fixed arms", "z test on requests, crossover"
E_FIXED, E_CROSSOVER = "sign e-process on pairs, fixed arms", "sign e-process on pairs, crossover (ours)"
WAYS = (REQUESTS_Z, REQUESTS_Z_CROSSOVER, E_FIXED, E_CROSSOVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run."""

    seed: int
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The block by which one way has declared the candidate better, and different; None: never."""

    better: int | None
    different: int | None


@dataclass(slots=True)
class Sums:
    """Requests of one agent in one epoch: number, sum and squares of hit shares, tokens."""

    requests: int = 0
    hit_share: float = 0.0
    squares: float = 0.0
    hit_tokens: int = 0
    prompt_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        """By tokens."""
        return self.hit_tokens / self.prompt_tokens

    def __iadd__(self, other: "Sums") -> "Sums":
        """Add another's."""
        self.requests += other.requests
        self.hit_share += other.hit_share
        self.squares += other.squares
        return self


def epochs_of(task: Task) -> list[list[Sums]]:
    """Serve the traffic; one row of agents per epoch."""
    count = 2 * (RUN_IN_BLOCKS + task.blocks)
    length = WASHOUT_SECONDS + WINDOW_SECONDS
    settings = CHAT_1.settings(CHAT_1.start(0.05))
    models = [ServingModel(CHAT_1.constants, settings) for _ in range(AGENTS)]
    sticky = StickyAssignment(AGENTS)
    epochs = [[Sums() for _ in range(AGENTS)] for _ in range(count)]
    for request in CHAT_1.requests(task.seed):
        since = request.arrival_s - WARM_SECONDS
        number = math.floor(since / length)
        if number >= count:
            return epochs
        agent = sticky.agent_of(request.root, request.arrival_s)
        served = models[agent].serve(request.arrival_s, request.blocks, request.prompt_tokens, request.root)
        if since < 0 or since - number * length < WASHOUT_SECONDS:
            continue
        sums, hits = epochs[number][agent], served.device_hit_tokens + served.host_hit_tokens
        hit_share = hits / request.prompt_tokens
        sums.requests += 1
        sums.hit_share += hit_share
        sums.squares += hit_share * hit_share
        sums.hit_tokens += hits
        sums.prompt_tokens += request.prompt_tokens
    raise AssertionError("a workload has no end")


def judged(task: Task) -> dict[str, Judged]:
    """Judge one run by each way."""
    epochs = epochs_of(task)
    run_in, tested = epochs[: 2 * RUN_IN_BLOCKS], epochs[2 * RUN_IN_BLOCKS :]
    swapped = {
        way: [_candidates(task.seed, epoch, fixed=fixed) for epoch in range(len(tested))]
        for way, fixed in (("fixed", True), ("crossover", False))
    }
    base = [_candidates(task.seed, epoch, fixed=False) for epoch in range(len(run_in))]
    s0 = s0_from_run_in(_deltas(run_in, base))
    return {
        REQUESTS_Z: _by_requests(tested, swapped["fixed"]),
        REQUESTS_Z_CROSSOVER: _by_requests(tested, swapped["crossover"]),
        E_FIXED: _by_pairs(_deltas(tested, swapped["fixed"]), s0),
        E_CROSSOVER: _by_pairs(_deltas(tested, swapped["crossover"]), s0),
    }


def _candidates(seed: int, epoch: int, *, fixed: bool) -> list[int]:
    """Which agent of each pair is called the candidate in an epoch."""
    found = []
    for index, pair in enumerate(PAIRS):
        second = coin(seed, block=0 if fixed else epoch // 2, pair_index=index)
        found.append(pair[second if fixed else second != bool(epoch % 2)])
    return found


def _deltas(epochs: Sequence[Sequence[Sums]], candidates: Sequence[Sequence[int]]) -> list[float]:
    """One Delta per pair and block, in the order of the ledger."""
    found = []
    for block in range(len(epochs) // 2):
        for index, pair in enumerate(PAIRS):
            total = 0.0
            for epoch in (2 * block, 2 * block + 1):
                candidate = candidates[epoch][index]
                control = pair[0] if candidate == pair[1] else pair[1]
                total += epochs[epoch][candidate].hit_rate - epochs[epoch][control].hit_rate
            found.append(total / 2)
    return found


def _by_requests(epochs: Sequence[Sequence[Sums]], candidates: Sequence[Sequence[int]]) -> Judged:
    """Peek after every epoch at all requests so far."""
    arms, scores = (Sums(), Sums()), []
    for row, chosen in zip(epochs, candidates, strict=True):
        for agent, sums in enumerate(row):
            arm = arms[0] if agent in chosen else arms[1]
            arm += sums
        scores.append(_z(*arms))
    return Judged(
        better=_first([z >= Z_ONE_SIDED for z in scores], 2),
        different=_first([abs(z) >= Z_TWO_SIDED for z in scores], 2),
    )


def _first(declared_at: Sequence[bool], looks_per_block: int) -> int | None:
    """The block, from 1, of the first look that declares."""
    return next((look // looks_per_block + 1 for look, yes in enumerate(declared_at) if yes), None)


def _z(a: Sums, b: Sums) -> float:
    means = [one.hit_share / one.requests for one in (a, b)]
    variances = [
        (one.squares / one.requests - mean * mean) / one.requests
        for one, mean in zip((a, b), means, strict=True)
    ]
    return (means[0] - means[1]) / math.sqrt(sum(variances))


def _by_pairs(deltas: Sequence[float], s0: float) -> Judged:
    """Look after every block of three pairs: superior, or the harm test as well."""
    superior, harm, size = EProcess.start(s0), EProcess.start(s0), len(PAIRS)
    better, worse = [], []
    for block in range(len(deltas) // size):
        for delta in deltas[block * size : (block + 1) * size]:
            superior, harm = superior.add(delta), harm.add(-delta)
        recent = deltas[max(0, block - 1) * size : (block + 1) * size]
        better.append(declared(superior, 0.05, recent_mean=sum(recent) / len(recent)))
        worse.append(declared(harm, 0.05))
    either = [one or other for one, other in zip(better, worse, strict=True)]
    return Judged(better=_first(better, 1), different=_first(either, 1))


def measure(effort: Effort) -> Iterator[Results]:
    """Give the table after every run."""
    runs, blocks = effort.runs(RUNS, QUICK_RUNS), effort.runs(BLOCKS, QUICK_BLOCKS)
    tasks = [Task(seed=seed, blocks=blocks) for seed in range(runs)]
    done: list[dict[str, Judged]] = []
    for _, found in results(judged, tasks, processes=effort.processes, name="arms"):
        done.append(found)
        yield Results(
            tables=(_table(done, blocks),), seeds=f"seeds 0 to {runs - 1}", partial=len(done) < runs
        )


def _table(runs: Sequence[dict[str, Judged]], blocks: int) -> Table:
    looks = sorted({min(8, blocks), blocks})
    rows = tuple(
        (
            way,
            *(
                share(sum((run[way].better or math.inf) <= block for run in runs), len(runs))
                for block in looks
            ),
            share(sum(run[way].different is not None for run in runs), len(runs)),
        )
        for way in WAYS
    )
    return Table(
        title="A/A on replayed chat: falsely declared",
        columns=(
            "Judged by",
            *(f"better by {2 * block} epochs ({3 * block} Deltas)" for block in looks),
            f"better or worse by {2 * blocks}",
        ),
        rows=rows,
        notes=(
            f"{len(runs)} runs of 6 serving models under chat, 1 request/s per agent, TTL 30 s, host 5 % of "
            "the working set; W 30 s, M 120 s; alpha .05; s0 from a run-in of two blocks",
            "the request test looks after every epoch, the e-process after every block",
            "design's figures within 48 epochs: request z with peeking .994, sign e-process on crossover "
            "pairs .004",
            "here agents differ only by the sessions that they happen to have, placed in turn; where they "
            "differ for good (section Verdicts) fixed arms declare one way or the other in .40 of A/A runs",
        ),
    )
