"""`kvtune trace stats`: what a trace says about reuse, its intervals, users, working sets and spikes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvtune_api.units import Duration
from kvtune_cli.lab_options import (
    BytesPerToken,
    JsonTarget,
    ModelShapeText,
    bytes_of_a_token,
    chosen,
    wrong,
)
from kvtune_cli.lab_outputs import Outputs, PlotFormat, PlotsFolder
from kvtune_cli.lab_traces import SessionStarts, SkipBad, telling_bad_traces
from kvtune_cli.output import STDOUT, put_json, tell
from kvtune_cli.progress import late_bar, progress_bar
from kvtune_lab.sizes import SizeError, parse_size, size_in_blocks

if TYPE_CHECKING:
    from kvtune_lab.readers.loaded import Arrivals, ClientRates, Loaded
    from kvtune_lab.stats.report import Options

TTL = "5m"


def trace() -> typer.Typer:
    """The group of commands about traces."""
    app = typer.Typer(help="Tell what a trace says.", no_args_is_help=True)
    app.callback()(_group)
    app.command("stats")(stats)
    return app


def _group() -> None:
    """Tell what a trace says.

    Example: kvtune trace stats trace.jsonl.gz
    """


def stats(
    trace: Annotated[Path, typer.Argument(help="A trace of any format that is read, also .gz or .zst.")],
    ttl: Annotated[
        str | None, typer.Option("--ttl", help=f"Residency is held against this TTL; default: {TTL}.")
    ] = None,
    lru: Annotated[
        str | None, typer.Option("--lru", help="Instead: against an LRU of so many blocks, bytes or share.")
    ] = None,
    window: Annotated[str, typer.Option("--window", help="Window of the working set.")] = "10m",
    bytes_per_token: BytesPerToken = None,
    model_shape: ModelShapeText = None,
    session_starts: SessionStarts = None,
    skip_bad: SkipBad = 0,
    json: JsonTarget = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Write a row for each class to this file.")
    ] = None,
    plots: PlotsFolder = None,
    plot_format: PlotFormat = "png",
) -> None:
    """Tell what a trace says: reuse and its intervals by class, users, working sets, spikes, waste.

    Example: kvtune trace stats trace.jsonl.gz --model-shape llama-3.1-8b --plots plots
    """
    from kvtune_lab.readers.loaded import Loaded

    outputs = Outputs(json, parquet, plots, plot_format)
    outputs.check()
    if ttl is not None and lru is not None:
        wrong("--ttl", "give this or --lru, not both")
    seconds = [_seconds("--ttl", ttl or TTL), _seconds("--window", window)]
    size = bytes_of_a_token(bytes_per_token, model_shape)
    read = _read(trace, skip_bad=skip_bad, session_starts=session_starts)
    _tell_notes(read)
    if isinstance(read, Loaded):
        _put_report(trace, read, _options(lru, seconds, size, read), outputs)
    else:
        _put_arrivals(trace, read, outputs)


def _options(
    lru: str | None, seconds: list[float], bytes_per_token: int | None, loaded: "Loaded"
) -> "Options":
    from kvtune_lab.stats.report import Options

    blocks = None
    if lru is not None:
        try:
            blocks = size_in_blocks(
                parse_size(lru),
                distinct_blocks=loaded.distinct_blocks,
                bytes_per_block=bytes_per_token and bytes_per_token * loaded.block_tokens,
            )
        except SizeError as error:
            wrong("--lru", error)
    return Options(
        ttl_seconds=seconds[0], lru_blocks=blocks, window_seconds=seconds[1], bytes_per_token=bytes_per_token
    )


def _read(path: Path, *, skip_bad: int, session_starts: Path | None) -> "Loaded | Arrivals | ClientRates":
    """Read requests where the trace has blocks, else arrivals."""
    from kvtune_lab.readers.load import load, load_arrivals, open_trace

    with telling_bad_traces(path), late_bar("reading", 1.0) as progress:
        if open_trace(path, skip_bad=skip_bad).has_blocks:
            return load(path, skip_bad=skip_bad, starts=session_starts, progress=progress)
        return load_arrivals(path, skip_bad=skip_bad, progress=progress)


def _tell_notes(read: "Loaded | Arrivals | ClientRates") -> None:
    from kvtune_lab.readers.errors import bad_rows
    from kvtune_lab.readers.loaded import LACKS

    lacks = LACKS[read.format]
    for note in read.notes:
        tell(f"note: the trace does not tell of {note}" if note in lacks else f"note: {note}")
    if read.skipped:
        tell(f"note: {bad_rows(read.skipped)} left out")


def _put_report(path: Path, loaded: "Loaded", options: "Options", outputs: Outputs) -> None:
    from kvtune_lab.stats.records import class_rows
    from kvtune_lab.stats.report import TraceStats

    with _refusing_long(path), progress_bar("working out"):
        worked_out = TraceStats(loaded, options)
        report = worked_out.report()
    if outputs.json != STDOUT:
        from kvtune_cli.trace_text import print_report

        print_report(report)
    figures = None
    if outputs.plots is not None:
        from kvtune_lab.stats.plots import trace_figures

        figures = trace_figures(worked_out, report)
    _put(path, report, class_rows(report), figures, outputs)


def _put_arrivals(path: Path, arrivals: "Arrivals | ClientRates", outputs: Outputs) -> None:
    from kvtune_lab.stats.records import arrival_row
    from kvtune_lab.stats.report import arrival_report

    with _refusing_long(path):
        report = arrival_report(arrivals)
    if outputs.json != STDOUT:
        from kvtune_cli.trace_text import print_arrivals

        print_arrivals(report)
    figures = None
    if outputs.plots is not None:
        from kvtune_lab.stats.plots import arrival_figures

        figures = arrival_figures(arrivals)
    _put(path, report, [arrival_row(report)], figures, outputs)


@contextmanager
def _refusing_long(path: Path) -> Iterator[None]:
    """End the command with one line where a trace spans too long."""
    from kvtune_lab.stats.arrivals import SpanError

    try:
        yield
    except SpanError as error:
        wrong(str(path), error)


def _put(path: Path, report: Any, rows: list[dict[str, Any]], figures: Any, outputs: Outputs) -> None:
    """Write what was asked for beside the tables."""
    if outputs.json is not None:
        from kvtune_lab.stats.records import document

        put_json(outputs.json, {"trace": str(path), **document(report)})
    outputs.put_rows(rows)
    if outputs.plots is not None:
        outputs.draw("trace", figures)


def _seconds(option: str, text: str) -> float:
    seconds = chosen(option, text, lambda written: Duration.check(written).seconds)
    if seconds == 0:
        wrong(option, f"{text} is not greater than 0")
    return seconds
