"""`kvtune sweep`: what policies hit on a trace over capacities, TTLs and eviction ratios."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.lab_options import (
    BytesPerToken,
    JsonTarget,
    ModelShapeText,
    bytes_of_a_token,
    capacities,
    listed,
    policy_of,
    ratio_of,
    threshold_of,
    ttl_of,
    wrong,
)
from kvtune_cli.lab_outputs import Outputs, ParquetTarget, PlotFormat, PlotsFolder
from kvtune_cli.lab_traces import SessionStarts, SkipBad, Trace, read_trace
from kvtune_cli.output import STDOUT, put_json, tell, writing
from kvtune_cli.progress import progress_bar
from kvtune_lab.setups import Grid, Order, Policy, Setup

if TYPE_CHECKING:
    from kvtune_lab.simulation import Simulation
    from kvtune_lab.sweep.results import ResultFile

ALL = "all"
CAPACITIES = "1%,2%,5%,10%,20%,40%"


@dataclass(frozen=True, slots=True)
class _Where:
    """Where setups run."""

    jobs: int
    dask: str | None

    def rows(self, trace: Trace, setups: Sequence[Setup]) -> Iterator["Simulation"]:
        """Simulate them all; rows as they come."""
        if self.dask is not None:
            from kvtune_lab.sweep.cluster import run_on_cluster

            return run_on_cluster(self.dask, trace.requests, setups)
        from kvtune_lab.sweep.run import run_here

        return run_here(trace.requests, setups, jobs=self.jobs)


def sweep(
    trace: Annotated[Path, typer.Argument(help="A trace of requests, also .gz or .zst.")],
    policies: Annotated[str, typer.Option("--policies", help=f"Of {', '.join(Policy)}.")] = ALL,
    capacity: Annotated[
        str, typer.Option("--capacities", help="Blocks, bytes (64GiB) or shares of the distinct blocks.")
    ] = CAPACITIES,
    ttls: Annotated[str, typer.Option("--ttls", help="Such as none,90s,10m.")] = "none",
    eviction_ratios: Annotated[str, typer.Option("--eviction-ratios", help="Such as none,0.1.")] = "none",
    store_thresholds: Annotated[str, typer.Option("--store-thresholds", help="Such as 1,2.")] = "1",
    order: Annotated[
        Order, typer.Option("--order", help="forward: head first, nothing pinned; OPT knows none.")
    ] = Order.TAIL,
    bytes_per_token: BytesPerToken = None,
    model_shape: ModelShapeText = None,
    skip_bad: SkipBad = 0,
    session_starts: SessionStarts = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Cores to use; default: all.")] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", help="Run on this Dask cluster, such as tcp://host:8786.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep finished rows here, and go on with those there.")
    ] = None,
    json: JsonTarget = None,
    parquet: ParquetTarget = None,
    plots: PlotsFolder = None,
    plot_format: PlotFormat = "png",
) -> None:
    """Replay a trace through every combination of the choices, and compare them.

    Example: kvtune sweep trace.jsonl.gz --policies LRU,ARC,OPT --capacities 1%,10% --out sweep.jsonl

    Interrupted, the same command with the same --out goes on where it was.
    """
    where = _Where(_cores(jobs), None if dask is None else _scheduler(dask))
    outputs = Outputs(json, parquet, plots, plot_format)
    grid = Grid(
        policies=list(Policy) if policies == ALL else listed("--policies", policies, policy_of),
        capacities_blocks=(),
        ttls_seconds=listed("--ttls", ttls, ttl_of),
        eviction_ratios=listed("--eviction-ratios", eviction_ratios, ratio_of),
        store_thresholds=listed("--store-thresholds", store_thresholds, threshold_of),
        order=order,
    )
    sizes = listed("--capacities", capacity, str)
    token_bytes = bytes_of_a_token(bytes_per_token, model_shape)
    outputs.check()
    read = read_trace(trace, skip_bad=skip_bad, session_starts=session_starts)
    blocks = sorted(capacities("--capacities", sizes, read, token_bytes))
    done, left = _run(read, replace(grid, capacities_blocks=blocks).setups(), where, out)
    _put(read, done, outputs, token_bytes)
    if left:
        _tell_left(len(done), left, out)
        raise typer.Exit(ExitCode.INTERRUPTED)


def _cores(jobs: int | None) -> int:
    if jobs is None:
        return len(os.sched_getaffinity(0))
    if jobs < 1:
        wrong("--jobs", f"{jobs} is less than 1")
    return jobs


def _scheduler(address: str) -> str:
    from kvtune_lab.sweep.cluster import check_address

    try:
        check_address(address)
    except ValueError as error:
        wrong("--dask", error)
    return address


def _run(
    trace: Trace, setups: Sequence[Setup], where: _Where, out: Path | None
) -> tuple[list["Simulation"], int]:
    """Simulate what is not kept yet; the finished rows in the order of the setups, and how many are left."""
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(_result_file(out, trace))
        done = {} if file is None else {setup: file.kept[setup] for setup in setups if setup in file.kept}
        if done:
            tell(f"{out}: {len(done)} of {len(setups)} rows are there")
        advance = stack.enter_context(progress_bar("sweep", len(setups)))
        advance(len(done))
        with suppress(KeyboardInterrupt):
            for row in where.rows(trace, [setup for setup in setups if setup not in done]):
                if file is not None:
                    file.add(row)
                done[row.setup] = row
                advance(len(done))
    rows = [done[setup] for setup in setups if setup in done]
    return rows, len(setups) - len(rows)


def _result_file(out: Path, trace: Trace) -> "ResultFile":
    """Open the result file; ends the command where it holds those of something else."""
    from kvtune_lab.sweep.origin import origin_of
    from kvtune_lab.sweep.results import OtherResults, ResultFile

    try:
        with writing(out):
            return ResultFile(out, origin_of(trace.requests))
    except OtherResults as error:
        wrong("--out", error)


def _put(trace: Trace, rows: list["Simulation"], outputs: Outputs, bytes_per_token: int | None) -> None:
    """Print and write what is finished."""
    from kvtune_cli.sweep_text import print_sweep
    from kvtune_lab.simulation import row as flat

    block_tokens = trace.block_tokens
    data = [flat(row, bytes_per_token=bytes_per_token, block_tokens=block_tokens) for row in rows]
    if outputs.json is not None:
        put_json(outputs.json, {"trace": str(trace.path), "block_tokens": block_tokens, "rows": data})
    if not rows:
        return
    if outputs.json != STDOUT:
        print_sweep(rows, data)
    if outputs.parquet is not None:
        from kvtune_lab.sweep.parquet import write_parquet

        with writing(outputs.parquet):
            write_parquet(data, outputs.parquet)
    if outputs.plots is not None:
        from kvtune_lab.sweep.plots import figures

        found = figures(rows, bytes_per_block=bytes_per_token and bytes_per_token * block_tokens)
        outputs.draw("sweep", found, none="none, because every choice has one value")


def _tell_left(done: int, left: int, out: Path | None) -> None:
    """Say how an interrupted sweep goes on."""
    kept = "nothing is kept without --out" if out is None else f"kept in {out}: the same command goes on"
    tell(f"kvtune: interrupted: {done} of {done + left} rows are finished; {kept}")
