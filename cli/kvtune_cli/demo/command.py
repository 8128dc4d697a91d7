"""`kvtune demo`: policy, agents, traffic and control plane on this machine, live, within minutes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.output import tell

if TYPE_CHECKING:
    from rich.console import Console

    from kvtune_cli.demo.options import DemoOptions
    from kvtune_cli.demo.story import Told

DIRECTORY = Path(".kvtune/demo")
PIPE_WIDTH = 160


def demo(
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Mooncake JSONL (.gz or not) in place of generated chat.")
    ] = None,
    with_grid: Annotated[
        bool, typer.Option("--with-grid", help="Also search the best static configuration (minutes more).")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of traffic and coins.")] = 1,
    speed: Annotated[float, typer.Option("--speed", help="Scaled seconds per second.")] = 60.0,
    agents: Annotated[int, typer.Option("--agents", help="How many agents.")] = 6,
    strategy: Annotated[
        str, typer.Option("--strategy", help="auto, reuse-model, ladder, optuna or proportional.")
    ] = "auto",
    rate: Annotated[float, typer.Option("--rate", help="Generated requests/s per agent.")] = 5.0,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Another policy than the demo's.")] = None,
    last_act: Annotated[
        bool, typer.Option("--last-act/--no-last-act", help="Show the failures, too.")
    ] = True,
    directory: Annotated[
        Path, typer.Option("--dir", help="Folder for runs (state, logs, ledger).")
    ] = DIRECTORY,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines, even on a terminal.")] = False,
) -> None:
    """Show the whole loop: a poor start, live experiments, a proven better configuration, and failures.

    Example: kvtune demo --seed 2 --json out.json
    """
    import asyncio

    from rich.console import Console

    from kvtune_cli.clock import unix_milliseconds
    from kvtune_cli.demo.options import DemoOptions
    from kvtune_cli.demo.story import Interrupted

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    options = DemoOptions(
        directory=(directory / f"run-{unix_milliseconds()}").resolve(),
        policy=file,
        trace=trace,
        json_file=json_file,
        with_grid=with_grid,
        last_act=last_act,
        seed=seed,
        speed=speed,
        agents=agents,
        rate=rate,
        strategy=strategy,
        live=console.is_terminal and not plain,
    )
    _check_json(json_file)
    try:
        told = asyncio.run(_tell(options, console))
    except Interrupted as end:
        restored = (
            "every agent runs its incumbent" if end.restored else "NOT every agent was seen on its incumbent"
        )
        tell(restored)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except asyncio.CancelledError:
        tell("stopped before all agents confirmed; candidates end with their lease")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    _finish(options, told, console)


async def _tell(options: "DemoOptions", console: "Console") -> "Told":
    import asyncio

    from kvtune_cli.demo.story import tell as tell_story
    from kvtune_cli.signals import StopSignals

    stop = asyncio.Event()
    StopSignals(stop, tell, text="interrupted: agents return to their incumbents first").install()
    return await tell_story(options, console, stop)


def _check_json(path: Path | None) -> None:
    """Refuse a file that cannot be written before the run, not after it."""
    if path is not None and not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"{path}: there is no folder {path.resolve().parent}", param_hint="--json")


def _finish(options: "DemoOptions", told: "Told", console: "Console") -> None:
    import json

    from kvtune_api.finite import finite
    from kvtune_cli.demo.summary import as_json, print_summary
    from kvtune_operator.statedir import StateDir, experiments
    from kvtune_tuner.replay import replay

    state = StateDir(options.directory / "state")
    replayed = [replay(experiment) for experiment in experiments(state)]
    best = _best(options, told, console) if options.with_grid else None
    print_summary(console, told, replayed, best, state.path)
    if options.json_file is not None:
        data = finite(as_json(told, replayed, best, state.path))
        options.json_file.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")
        console.print(f"wrote {options.json_file}", highlight=False)
    if any(result.differences for result in replayed):
        raise typer.Exit(ExitCode.DIFFERENT)


def _best(options: "DemoOptions", told: "Told", console: "Console"):  # type: ignore[no-untyped-def]  # lazy import
    from rich.progress import Progress

    from kvtune_cli.demo.best_static import best_static

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("searching the best static configuration", total=None)
        return best_static(
            options, told.policy, lambda done, most: progress.update(task, completed=done, total=most)
        )
