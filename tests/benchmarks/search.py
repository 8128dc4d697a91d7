"""How long strategies take until they run within 2 % of the best static configuration.

Strategies and starts of one seed share the traffic. The best is that of the lab's grid, on the traffic on
which every promoted configuration is evaluated.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from kvtune_api.names import Outcome, OutcomeReason
from kvtune_lab.grid import Bounds, GridPoint
from kvtune_lab.grid import search as grid_search
from tests.benchmarks.parallel import results, told
from tests.benchmarks.search_runs import (
    CONTROLLER,
    EVALUATION_SEED,
    Run,
    Task,
    evaluation_traffic,
    run_all,
    study_of,
    truth,
)
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.benchmarks.traffic import CHAT_1, CHAT_5, Workload, present

NEAR = 0.98
MAIN = (("Auto", 0.05),)
CASES = (
    *MAIN,
    ("Auto", 0.10),
    ("Auto", 0.03),
    ("Ladder", 0.05),
    ("Optuna", 0.05),
    (CONTROLLER, 0.05),
)
"""Strategy, and the start's host tier as a share of the working set."""

SEEDS_OF_ALL, SEEDS_OF_MAIN = 5, 20

DESIGN = {
    CHAT_5.name: (
        "design, another generator, host 5 %: reuse model 20 of 20 within 2 % in 12,000 s, median 1.37 h and "
        "2.1 experiments, end .994 (.985); ladder 20 of 20 or 0 of 20 by where a factor 4 lands; TPE alone "
        "10 of 20, end .942 (.692); the untested Proportional controller .50-.54 without prices",
    ),
    CHAT_1.name: ("design, at this rate: TPE alone 18 h",),
}
"""What experiments.md 10 and 15 say."""


def best_static(workload: Workload, effort: Effort) -> GridPoint:
    """The best of the lab's grid over the policy's bounds."""
    blocks_per_gib = 2**30 / workload.constants.block_bytes
    low, high = (round(gib * blocks_per_gib) for gib in workload.host_gib)
    bounds = Bounds(
        ttl_seconds=(420.0, 420.0) if effort.quick else (30.0, 600.0),
        eviction_ratio=(0.1, 0.1) if effort.quick else (0.05, 0.3),
        host_blocks=(low, high),
    )
    found = grid_search(
        evaluation_traffic(workload.name),
        bounds,
        study_of(workload),
        rounds=effort.runs(3, 1),
        processes=effort.processes,
        progress=lambda done, most: (
            told(f"grid, {workload.name}: {done} of at most {most}") if done % 20 == 0 else None
        ),
    )
    return found.best


def measure(effort: Effort) -> Iterator[Results]:
    """Find the best of every workload, then run seed after seed."""
    workloads = present()
    bests = {workload.name: best_static(workload, effort) for workload in workloads}
    runs: dict[str, list[Run]] = {workload.name: [] for workload in workloads}
    tasks = _tasks(effort, workloads)
    found = results(run_all, tasks, processes=effort.processes, name="search")
    for done, (task, more) in enumerate(found, start=1):
        runs[task.workload] += more
        for run in more:
            told(_line(task, run, bests[task.workload]))
        tables = [_table(workload, bests[workload.name], runs[workload.name]) for workload in workloads]
        tables.append(_experiments(runs))
        yield Results(
            tables=tuple(tables),
            seeds=f"seeds from 0 on, as many as the tables say; static evaluation on seed {EVALUATION_SEED}",
            partial=done < len(tasks),
        )


def _tasks(effort: Effort, workloads: Sequence[Workload]) -> list[Task]:
    """Every case for the first seeds, the default strategy for all; the seeds in turn."""
    tasks = []
    for seed in range(effort.runs(SEEDS_OF_MAIN, 1)):
        cases = CASES if seed < SEEDS_OF_ALL else MAIN
        tasks += [
            Task(workload=workload.name, seed=seed, cases=cases, quick=effort.quick) for workload in workloads
        ]
    return tasks


def _line(task: Task, run: Run, best: GridPoint) -> str:
    steps = " ".join(f"{at:.0f}s:{y / best.objective:.3f}" for at, y in run.steps)
    tried = " ".join(f"{one.outcome}[{one.deltas},{one.effect},{one.truth:+.4f}]" for one in run.tried)
    return f"{task.workload} seed {task.seed} {run.strategy} {run.start}: {steps} | {tried} | {run.ended_in}"


def reached(run: Run, best: float) -> float | None:
    """Seconds until the incumbent was within 2 % of the best; None: never."""
    return next((at for at, y in run.steps if y >= NEAR * best), None)


def _table(workload: Workload, best: GridPoint, runs: Sequence[Run]) -> Table:
    rows = []
    for strategy, share in CASES:
        mine = [run for run in runs if (run.strategy, run.start) == (strategy, share)]
        if mine:
            rows.append(_row(workload, best, mine))
    s = best.settings
    host_gib = s.host_blocks * workload.constants.block_bytes / 2**30
    return Table(
        title=workload.name,
        columns=("Strategy, start", "Runs", "Within 2 %", "Hours (median)", "Experiments until then",
                 "Start Y / best", "End Y / best (worst)", "Promoted / lost", "Refused for power at the end"),
        rows=tuple(rows),
        notes=(
            f"best static: TTL {s.ttl_seconds:.0f} s, ratio {s.eviction_ratio:.3g}, host {host_gib:.0f} GiB: "
            f"Y {best.objective:.4f}, hit rate {best.hit_rate:.3f}, share within "
            f"{workload.limit_seconds:g} s {best.share_within_limit:.3f}, utilisation {best.utilisation:.2f}",
            f"{workload.virtual_seconds / 3600:.1f} virtual hours a run after 1,200 s of traffic; start: the "
            f"host tier as a share of {workload.working_set_gib:g} GiB, TTL 30 s, ratio .3; steps of at most "
            f"a factor 4, M from {workload.window}, 6 agents; hours until the promotion's watch has ended",
            *DESIGN.get(workload.name, ()),
        ),
    )  # fmt: skip


def _row(workload: Workload, best: GridPoint, runs: Sequence[Run]) -> tuple[str, ...]:
    strategy, share = runs[0].strategy, runs[0].start
    ends = [run.steps[-1][1] / best.objective for run in runs]
    start = truth(workload, workload.start(share)) / best.objective
    head = (f"{strategy}, host {share:.0%}", str(len(runs)))
    tail = (f"{start:.3f}", f"{median(ends):.3f} ({min(ends):.3f})")
    if strategy == CONTROLLER:
        return (*head, "-", "-", "-", *tail, "-", "-")
    times = [at for run in runs if (at := reached(run, best.objective)) is not None]
    until = [_count_until(run, best) for run in runs if reached(run, best.objective) is not None]
    promoted = sum(one.outcome.startswith(Outcome.PROMOTED) for run in runs for one in run.tried)
    return (
        *head,
        f"{len(times)} of {len(runs)}",
        f"{median(times) / 3600:.2f}" if times else "-",
        f"{sum(until) / len(until):.1f}" if until else "-",
        *tail,
        f"{promoted} / {sum(len(run.tried) for run in runs) - promoted}",
        str(sum(run.ended_in.startswith("power ") for run in runs)),
    )


def _count_until(run: Run, best: GridPoint) -> int:
    """Experiments until the run was near the best; all, when it never was."""
    at = reached(run, best.objective)
    if at is None:
        return len(run.tried)
    promotions = sum(1 for seconds, _ in run.steps[1:] if seconds <= at)
    count = 0
    for number, one in enumerate(run.tried, start=1):
        count += one.outcome.startswith(Outcome.PROMOTED)
        if count == promotions:
            return number if promotions else 0
    return len(run.tried)


def _experiments(runs: dict[str, list[Run]]) -> Table:
    """What became of all experiments of the search, against the truth."""
    rows = []
    for name, mine in runs.items():
        tried = [one for run in mine for one in run.tried]
        reverts = [one for one in tried if OutcomeReason.WATCH in one.outcome]
        trips = [one for one in tried if OutcomeReason.BREAKER in one.outcome]
        promoted = [one for one in tried if one.outcome.startswith(Outcome.PROMOTED)]
        ratios = sorted(
            one.effect / one.truth for one in tried if one.effect is not None and abs(one.truth) >= 0.03
        )
        rows.append((
            name,
            str(len(tried)),
            f"{len(promoted)} ({sum(one.truth < 0 for one in promoted)})",
            f"{len(reverts)} ({sum(one.truth >= 0 for one in reverts)})",
            f"{len(trips)} ({sum(one.truth >= 0 for one in trips)})",
            f"{median(ratios):.2f} ({len(ratios)})" if ratios else "-",
        ))  # fmt: skip
    return Table(
        title="All experiments of these runs, against the truth",
        columns=("Workload", "Experiments", "Promoted (worse in truth)", "Watch reverts (false)",
                 "Breaker trips (on a better candidate)", "Measured / true effect (of how many)"),
        rows=tuple(rows),
        notes=("true effect: static Y of candidate minus incumbent on the evaluation traffic, which has "
               "another seed; the ratio is the median over experiments with a true effect of at least .03",),
    )  # fmt: skip
