"""`kvtune replay`: recompute every verdict of a ledger offline, and name each difference."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_api.errors import Corrupt
from kvtune_cli.exits import ExitCode
from kvtune_cli.output import say, say_json

if TYPE_CHECKING:
    from kvtune_api.experiment import KVCacheExperiment

STDIN = Path("-")
_HELP = (
    "Files of experiments (also of kubectl get kvx -o json|yaml), state directories, or - for standard input."
)


def replay(
    ledgers: Annotated[list[Path], typer.Argument(help=_HELP, metavar="LEDGER...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute the verdicts from the ledgers' counters; exit 1 on any difference.

    Example: kvtune replay .kvtune

    In a cluster: kubectl get kvx chat-00001 -o json | kvtune replay -
    """
    from kvtune_tuner.replay import replay as replayed

    rows = [
        (path, experiment.metadata.name, replayed(experiment)) for path, experiment in _experiments(ledgers)
    ]
    verdicts = sum(result.verdicts for _, _, result in rows)
    differences = sum(len(result.differences) for _, _, result in rows)
    if as_json:
        listed = [
            {
                "file": str(path),
                "experiment": name,
                "verdicts": result.verdicts,
                "differences": list(result.differences),
                "notes": list(result.notes),
            }
            for path, name, result in rows
        ]
        say_json({"equal": not differences, "verdicts": verdicts, "experiments": listed})
    else:
        for path, name, result in rows:
            for line in (*result.notes, *result.differences):
                say(f"{path}: {name}: {line}")
        say(_summary(verdicts, differences, len(rows)))
    raise typer.Exit(ExitCode.DIFFERENT if differences else ExitCode.OK)


def _summary(verdicts: int, differences: int, experiments: int) -> str:
    if differences:
        return f"{differences} differences among {verdicts} verdicts"
    if not experiments:
        return "0 verdicts equal (there is no experiment)"
    return f"{verdicts} verdicts equal"


def _experiments(ledgers: list[Path]) -> Iterator[tuple[Path, "KVCacheExperiment"]]:
    from kvtune_operator.ledgers import experiments_in, read_experiments

    for path in _files(ledgers):
        found = experiments_in(_input(), "standard input") if path == STDIN else read_experiments(path)
        yield from ((path, experiment) for experiment in found)


def _input() -> str:
    from kvtune_operator.ledgers import SIZE_LIMIT

    data = sys.stdin.buffer.read(SIZE_LIMIT + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Corrupt(f"standard input: not UTF-8 text at byte {error.start}") from error


def _files(ledgers: list[Path]) -> Iterator[Path]:
    for ledger in ledgers:
        if ledger == STDIN:
            yield ledger
            continue
        if not ledger.exists():
            raise typer.BadParameter(f"{ledger}: there is no such file or directory")
        if not ledger.is_dir():
            yield ledger
            continue
        inside = ledger / "experiments"
        if not inside.is_dir() and not any(ledger.glob("*.json")):
            raise typer.BadParameter(f"{ledger}: is neither a state directory nor holds experiments")
        folder = inside if inside.is_dir() else ledger
        yield from sorted(path for path in folder.glob("*.json") if path.name[0] != ".")
