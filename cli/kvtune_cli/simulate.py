"""`kvtune simulate`: what an eviction policy would have hit on a trace, with a cache of a given size."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kvtune_api.errors import Unavailable
from kvtune_cache.requests import Requests
from kvtune_cli.exits import ExitCode
from kvtune_cli.output import say, say_json, tell
from kvtune_lab.mooncake import BLOCK_TOKENS, TraceError, read_mooncake
from kvtune_lab.setups import Order, Policy
from kvtune_lab.simulate import Simulation, packed
from kvtune_lab.simulate import simulate as simulated


def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace in Mooncake's format, JSON lines, also .gz.")],
    capacity: Annotated[int, typer.Option("--capacity", min=1, help="Size of the cache in blocks.")],
    policy: Annotated[
        Policy, typer.Option("--policy", help="OPT: the best with all requests known.")
    ] = Policy.LRU,
    order: Annotated[
        Order, typer.Option("--order", help="forward: head first, nothing pinned; not for OPT.")
    ] = Order.TAIL,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay a trace through one cache and print its hit rates, of all requests and of the last half.

    Example: kvtune simulate trace.jsonl.gz --policy ARC --capacity 18279
    """
    if policy is Policy.OPT and order is Order.FORWARD:
        raise typer.BadParameter("forward: OPT knows no order", param_hint="--order")
    done = simulated(_read(trace), policy, capacity, order=order)
    if as_json:
        say_json(asdict(done))
        return
    for line in _lines(done):
        say(line)


def _read(trace: Path) -> Requests:
    try:
        return packed(read_mooncake(trace), block_tokens=BLOCK_TOKENS)
    except TraceError as error:
        tell(f"kvtune: {trace}: {error}")
        raise typer.Exit(ExitCode.USAGE) from error
    except OSError as error:
        raise Unavailable(f"{trace}: {error.strerror or error}") from error


def _lines(done: Simulation) -> list[str]:
    """The result for a person."""
    share = done.capacity_blocks / done.distinct_blocks
    left = "" if done.evictions is None else f"; {done.evictions:,} blocks were evicted"
    return [
        f"{done.requests:,} requests, {done.block_references:,} blocks, {done.distinct_blocks:,} distinct",
        f"{done.policy} with {done.capacity_blocks:,} blocks ({share:.1%} of those){left}",
        f"hit rate of tokens  {done.token_hit_rate:.4f}, last half {done.token_hit_rate_last_half:.4f}",
        f"hit rate of blocks  {done.block_hit_rate:.4f}, last half {done.block_hit_rate_last_half:.4f}",
    ]
