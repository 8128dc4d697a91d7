"""`kvtune explain`: how far a trace's policies are from what can be known, and what ours has learned."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.agent_lessons import learned_by_agent
from kvtune_cli.capacity import SampleShare, sampling_of
from kvtune_cli.lab_options import JsonTarget, capacities, listed, wrong
from kvtune_cli.lab_outputs import Outputs, PlotFormat, PlotsFolder
from kvtune_cli.lab_traces import SessionStarts, SkipBad, Trace, read_trace
from kvtune_cli.output import STDOUT, put_json
from kvtune_cli.progress import progress_bar

if TYPE_CHECKING:
    from kvtune_lab.capacity.curves import Sampling
    from kvtune_lab.explain.explain import Explained
    from kvtune_lab.explain.learned import Learned

CAPACITIES = "1%,2%,5%,10%,20%,40%"
ACCURACIES = "0.6,0.7,0.8,0.9,0.95,1"
AGENT_SCHEMES = ("http://", "https://")
HOST_AND_PORT = re.compile(r"[^/\s]+:\d{1,5}")


@dataclass(frozen=True, slots=True)
class _Choices:
    sizes: list[str]
    accuracies: list[float]
    sampling: "Sampling | None"


def explain(
    trace: Annotated[str, typer.Argument(metavar="TRACE|AGENT", help="A trace, or an agent's address.")],
    sizes: Annotated[
        str, typer.Option("--capacities", help="Blocks, or shares of the distinct blocks.")
    ] = CAPACITIES,
    accuracies: Annotated[
        str, typer.Option("--hint-accuracies", help="How often a client's hint is right, 0.5 to 1.")
    ] = ACCURACIES,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", help="Of an agent: what it has served (kvtune agent --record)."),
    ] = None,
    sample: SampleShare = None,
    skip_bad: SkipBad = 0,
    session_starts: SessionStarts = None,
    json: JsonTarget = None,
    plots: PlotsFolder = None,
    plot_format: PlotFormat = "png",
) -> None:
    """Show LRU, ours, the bound of what is knowable and OPT, what hints would add, and what was learned.

    Of an agent that runs ReuseAware: what it has learned. What it could hit its recording tells.

    Example: kvtune explain trace.jsonl.gz --plots plots
    """
    outputs = Outputs(json, None, plots, plot_format)
    outputs.check()
    choices = _Choices(
        listed("--capacities", sizes, str),
        listed("--hint-accuracies", accuracies, _accuracy),
        None if sample is None else sampling_of(sample),
    )
    by_agent = learned_by_agent(trace) if trace.lower().startswith(AGENT_SCHEMES) else None
    if by_agent is not None and recording is None:
        _put_learned(trace, by_agent, outputs)
        return
    if by_agent is None and recording is not None:
        wrong("--recording", f"{trace} is no agent's address: give the recording alone")
    if by_agent is None and HOST_AND_PORT.fullmatch(trace) and not Path(trace).exists():
        wrong(trace, f"no such file; an agent's address begins with http://, such as http://{trace}")
    read = read_trace(recording or Path(trace), skip_bad=skip_bad, session_starts=session_starts)
    blocks = sorted(capacities("--capacities", choices.sizes, read, None))
    explained = _explained(read, blocks, choices)
    _put(read, explained, by_agent or _learned(read, explained), outputs)


def _accuracy(text: str) -> float:
    value = float(text)
    if not 0.5 <= value <= 1:
        raise ValueError(f"{text} is not within [0.5, 1]")
    return value


def _explained(trace: Trace, blocks: list[int], choices: _Choices) -> "Explained":
    from kvtune_lab.capacity.curves import sampling_for
    from kvtune_lab.explain.explain import explain as explained

    try:
        with progress_bar("simulations") as progress:
            return explained(
                trace.requests,
                blocks,
                sampling=choices.sampling or sampling_for(len(trace.requests.blocks)),
                accuracies=choices.accuracies,
                progress=progress,
            )
    except ValueError as error:
        wrong(str(trace.path), error)


def _learned(trace: Trace, explained: "Explained") -> "Learned":
    """What is learned at the capacity where most is to be gained."""
    from kvtune_lab.explain.explain import most_to_gain
    from kvtune_lab.explain.learned import learn

    return learn(trace.requests, most_to_gain(explained).capacity_blocks)


def _put_learned(address: str, learned: "Learned", outputs: Outputs) -> None:
    """Print and write what an agent has learned."""
    from kvtune_cli.explain_text import print_learned
    from kvtune_lab.explain.records import learned_document

    if outputs.json is not None:
        put_json(outputs.json, {"agent": address, "learned": learned_document(learned)})
    if outputs.json != STDOUT:
        print_learned(learned)
    _plot(None, learned, outputs)


def _put(trace: Trace, explained: "Explained", learned: "Learned", outputs: Outputs) -> None:
    """Print and write it."""
    from kvtune_cli.explain_text import print_explained, print_learned
    from kvtune_lab.explain.records import document, learned_document

    if outputs.json is not None:
        data = {"trace": str(trace.path), **document(explained), "learned": learned_document(learned)}
        put_json(outputs.json, data)
    if outputs.json != STDOUT:
        print_explained(explained)
        print_learned(learned)
    _plot(explained, learned, outputs)


def _plot(explained: "Explained | None", learned: "Learned", outputs: Outputs) -> None:
    if outputs.plots is not None:
        from kvtune_lab.explain.plots import figures

        outputs.draw("explain", figures(explained, learned))
