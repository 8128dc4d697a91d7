"""`kvtune capacity`: how much cache a trace is worth, split over tiers, for a budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.lab_options import JsonTarget, bytes_of_a_token, capacities, chosen, listed, policy_of, wrong
from kvtune_cli.lab_outputs import Outputs, ParquetTarget, PlotFormat, PlotsFolder
from kvtune_cli.lab_traces import SessionStarts, SkipBad, Trace, read_trace
from kvtune_cli.output import STDOUT, put_json
from kvtune_cli.progress import progress_bar
from kvtune_lab.setups import Policy

if TYPE_CHECKING:
    from kvtune_lab.capacity.curves import Curves, Sampling
    from kvtune_lab.capacity.plan import Plan

ALL = "all"
CAPACITIES = "0.5%,1%,2%,5%,10%,20%,40%,70%,100%"
DEVICE = "40GiB"
DEFAULT_PRICES = "host=2.0/GiB-month,disk=0.1/GiB-month"
DEFAULT_SPEEDS = "host=25GB/s,disk=3GB/s"
DEFAULT_PREFILL = 8_000.0

SampleShare = Annotated[
    float | None, typer.Option("--sample", help="Share of the blocks to sample; default: by size.")
]


def capacity(
    trace: Annotated[Path, typer.Argument(help="A trace of requests, also .gz or .zst.")],
    model_shape: Annotated[
        str,
        typer.Option(
            "--model-shape",
            help="A model, such as llama-3.1-8b or layers=32,kv_heads=8,head_dim=128,dtype=bf16.",
        ),
    ],
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", help="For what is below the device: money (500/month) or bytes (2TiB); default: any."
        ),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help="KV space on the device, all GPUs of the trace together.")
    ] = DEVICE,
    price: Annotated[
        str, typer.Option("--price", help="Of host and disk; the default is round numbers, no claim.")
    ] = DEFAULT_PRICES,
    speed: Annotated[
        str, typer.Option("--speed", help="How fast blocks load from host and disk; no claim either.")
    ] = DEFAULT_SPEEDS,
    prefill: Annotated[
        float, typer.Option("--prefill", help="Tokens a second that prefill computes; no claim either.")
    ] = DEFAULT_PREFILL,
    policies: Annotated[str, typer.Option("--policies", help=f"Of {', '.join(Policy)}.")] = ALL,
    sizes: Annotated[
        str, typer.Option("--capacities", help="Where policies are measured, beside the device's size.")
    ] = CAPACITIES,
    sample: SampleShare = None,
    skip_bad: SkipBad = 0,
    session_starts: SessionStarts = None,
    json: JsonTarget = None,
    parquet: ParquetTarget = None,
    plots: PlotsFolder = None,
    plot_format: PlotFormat = "png",
) -> None:
    """Plan a cache for the traffic of a trace: hit rates by capacity, policy and tier, and what they cost.

    Example: kvtune capacity trace.jsonl.gz --model-shape llama-3.1-8b --budget 500/month --plots plots
    """
    from kvtune_lab.capacity.plan import plan
    from kvtune_lab.capacity.prices import NO_LIMIT, Terms, parse_budget, parse_prices, parse_speeds
    from kvtune_lab.capacity.splits import Layout

    outputs = Outputs(json, parquet, plots, plot_format)
    outputs.check()
    if not 0 < prefill < float("inf"):
        wrong("--prefill", f"{prefill:g} is not a number of tokens greater than 0")
    spend = NO_LIMIT if budget is None else chosen("--budget", budget, parse_budget)
    terms = Terms(
        per_gib_month=chosen("--price", price, lambda text: parse_prices([text])),
        bytes_per_second=chosen("--speed", speed, lambda text: parse_speeds([text])),
        prefill_tokens_per_second=prefill,
    )
    wanted = list(Policy) if policies == ALL else listed("--policies", policies, policy_of)
    token_bytes = bytes_of_a_token(None, model_shape)
    assert token_bytes is not None
    sampling = None if sample is None else sampling_of(sample)
    read = read_trace(trace, skip_bad=skip_bad, session_starts=session_starts)
    (blocks,) = capacities("--device", [device], read, token_bytes)
    measured = {blocks, *capacities("--capacities", listed("--capacities", sizes, str), read, token_bytes)}
    layout = Layout(
        device_blocks=blocks,
        bytes_per_token=token_bytes,
        bytes_per_block=token_bytes * read.block_tokens,
        terms=terms,
    )
    curves = _measured(read, list(dict.fromkeys([Policy.LRU, *wanted])), sorted(measured), sampling)
    _put(read, plan(curves, layout, spend), outputs)


def sampling_of(rate: float) -> "Sampling":
    """Read a share of the blocks to sample; ends the command where it is none."""
    from kvtune_lab.capacity.curves import Sampling

    try:
        return Sampling(rate=rate)
    except ValueError as error:
        wrong("--sample", error)


def _measured(
    trace: Trace, policies: list[Policy], sizes: list[int], sampling: "Sampling | None"
) -> "Curves":
    from kvtune_lab.capacity.curves import policy_curves, sampling_for

    how = sampling or sampling_for(len(trace.requests.blocks))
    try:
        with progress_bar("simulations") as progress:
            return policy_curves(trace.requests, policies, sizes, sampling=how, progress=progress)
    except ValueError as error:
        wrong(str(trace.path), error)


def _put(trace: Trace, found: "Plan", outputs: Outputs) -> None:
    """Print and write the plan, and the recommended split as it is when it is simulated tier by tier."""
    from kvtune_cli.capacity_text import print_plan
    from kvtune_lab.capacity.records import document, flat_rows, split_row
    from kvtune_lab.capacity.splits import simulated

    checked = simulated(found.best, trace.requests, found.layout)
    if outputs.json is not None:
        row = {"best_simulated": split_row(found, checked)}
        put_json(
            outputs.json,
            {"trace": str(trace.path), "block_tokens": trace.block_tokens, **document(found), **row},
        )
    if outputs.json != STDOUT:
        print_plan(found, checked)
    outputs.put_rows(flat_rows(found))
    if outputs.plots is not None:
        from kvtune_lab.capacity.plots import figures

        outputs.draw("capacity", figures(found))
