"""`kvtune simulate`: what an eviction policy would have hit on a trace, with a cache of a given size."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvtune_cli.lab_options import (
    BytesPerToken,
    JsonTarget,
    ModelShapeText,
    bytes_of_a_token,
    capacities,
    chosen,
    policy_of,
    ratio_of,
    threshold_of,
    ttl_of,
    wrong,
)
from kvtune_cli.lab_traces import SessionStarts, SkipBad, read_trace
from kvtune_cli.output import STDOUT, put_json, say, tell
from kvtune_cli.progress import progress_bar
from kvtune_cli.weights import weights_of
from kvtune_lab.setups import Order, Policy, Setup, SetupError, variant_text
from kvtune_lab.sizes import in_bytes

if TYPE_CHECKING:
    from kvtune_lab.simulation import Evictions, Simulation

SHORT_REFERENCES = 500_000
"""So many blocks are simulated in a second or so: no bar."""


def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace of requests, also .gz or .zst.")],
    capacity: Annotated[str, typer.Option("--capacity", help="Blocks, bytes (64GiB) or a share (10%).")],
    policy: Annotated[str, typer.Option("--policy", help=f"One of {', '.join(Policy)}.")] = "ReuseAware",
    ttl: Annotated[str, typer.Option("--ttl", help="Blocks idle for longer leave, such as 90s.")] = "none",
    eviction_ratio: Annotated[
        str, typer.Option("--eviction-ratio", help="Leave in passes of this share of the cache.")
    ] = "none",
    store_threshold: Annotated[
        str, typer.Option("--store-threshold", help="Take a block in when asked for so often.")
    ] = "1",
    order: Annotated[
        Order, typer.Option("--order", help="forward: head first, nothing pinned; not for OPT.")
    ] = Order.TAIL,
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Of WorkloadAware: to-b, to-c, p_reuse_weight=0.6,life_weight=0.1."),
    ] = None,
    bytes_per_token: BytesPerToken = None,
    model_shape: ModelShapeText = None,
    skip_bad: SkipBad = 0,
    session_starts: SessionStarts = None,
    json: JsonTarget = None,
) -> None:
    """Replay a trace through one cache and print its hit rates, of all requests and of the last half.

    Example: kvtune simulate trace.jsonl.gz --policy ARC --capacity 18279
    """
    setup = _setup(policy, ttl, eviction_ratio, store_threshold, order)
    rules = None if weights is None else chosen("--weights", weights, weights_of)
    if rules is not None and setup.policy is not Policy.WORKLOAD_AWARE:
        wrong("--weights", f"{setup.policy} has none, {Policy.WORKLOAD_AWARE} has")
    token_bytes = bytes_of_a_token(bytes_per_token, model_shape)
    read = read_trace(trace, skip_bad=skip_bad, session_starts=session_starts)
    (blocks,) = capacities("--capacity", [capacity], read, token_bytes)

    from kvtune_lab.simulate import Simulator
    from kvtune_lab.simulation import row

    simulator = Simulator(read.requests, workload=rules)
    if simulator.compiles(setup.policy):
        tell(f"note: compiling {setup.policy} once, which takes up to a minute; later runs begin at once")
    with progress_bar("simulating") if simulator.references > SHORT_REFERENCES else nullcontext():
        done = simulator.simulate(replace(setup, capacity_blocks=blocks))
    data = row(done, bytes_per_token=token_bytes, block_tokens=read.block_tokens) | {"weights": weights}
    if json is not None:
        put_json(json, data)
    if json != STDOUT:
        for line in _lines(done, data):
            say(line)


def _setup(policy: str, ttl: str, eviction_ratio: str, store_threshold: str, order: Order) -> Setup:
    """All choices but the capacity, which needs the trace; ends the command where one is wrong."""
    try:
        return Setup(
            policy=chosen("--policy", policy, policy_of),
            capacity_blocks=1,
            ttl_seconds=chosen("--ttl", ttl, ttl_of),
            eviction_ratio=chosen("--eviction-ratio", eviction_ratio, ratio_of),
            store_threshold=chosen("--store-threshold", store_threshold, threshold_of),
            order=order,
        )
    except SetupError as error:
        option, _, problem = str(error).partition(": ")
        wrong(f"--{option}", problem)


def _lines(done: "Simulation", data: Mapping[str, Any]) -> list[str]:
    """The result for a person."""
    share = done.setup.capacity_blocks / done.distinct_blocks
    variant = variant_text(done.setup)
    return [
        f"{done.requests:,} requests, {done.block_references:,} blocks, {done.distinct_blocks:,} distinct",
        f"{done.setup.policy} with {done.setup.capacity_blocks:,} blocks ({100 * share:.1f} % of those)"
        + (f", {variant}" if variant else ""),
        f"hit rate of tokens  {_rates(done.token_hit_rate, done.token_hit_rate_last_half)}",
        f"hit rate of blocks  {_rates(done.block_hit_rate, done.block_hit_rate_last_half)}",
        *([] if done.evictions is None else _eviction_lines(done.evictions)),
        *([] if data["bytes_read"] is None else [_moved(data)]),
    ]


def _rates(whole: float, last_half: float) -> str:
    return f"{100 * whole:.2f} %, last half {100 * last_half:.2f} %"


def _eviction_lines(left: "Evictions") -> list[str]:
    passes = f" in {left.passes:,} passes" if left.passes else ""
    return [
        f"evicted  {left.pressure:,} blocks for room{passes}, {left.ttl:,} by TTL; "
        f"{left.wanted_again:,} of them were asked for again",
        f"written  {left.blocks_written:,} blocks",
    ]


def _moved(data: Mapping[str, Any]) -> str:
    written = "" if data["bytes_written"] is None else f"written {in_bytes(data['bytes_written'])}, "
    return f"bytes    {written}read {in_bytes(data['bytes_read'])}"
