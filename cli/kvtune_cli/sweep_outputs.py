"""Where the rows of a sweep go: tables, JSON, Parquet, plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvtune_cli.lab_options import wrong
from kvtune_cli.output import STDOUT, put_json, tell, writing

if TYPE_CHECKING:
    from kvtune_lab.simulation import Simulation


@dataclass(frozen=True, slots=True)
class SweepOutputs:
    """What is written of a trace's sweep, beside the tables."""

    trace: Path
    json: Path | None
    parquet: Path | None
    plots: Path | None
    plot_format: str

    def check(self) -> None:
        """Find out before the work whether its results can be written; raises `Unavailable`."""
        if self.plot_format not in ("png", "svg"):
            wrong("--plot-format", f"{self.plot_format!r} is not one of png, svg")
        if self.plots is not None:
            with writing(self.plots):
                self.plots.mkdir(parents=True, exist_ok=True)
        for target in (self.json, self.parquet):
            if target is not None and target != STDOUT:
                with writing(target):
                    target.open("ab").close()

    def put(self, rows: Sequence["Simulation"], *, block_tokens: int, bytes_per_token: int | None) -> None:
        """Print and write what is finished."""
        from kvtune_cli.sweep_text import print_sweep
        from kvtune_lab.simulation import row as flat

        data = [flat(row, bytes_per_token=bytes_per_token, block_tokens=block_tokens) for row in rows]
        if self.json is not None:
            put_json(self.json, {"trace": str(self.trace), "block_tokens": block_tokens, "rows": data})
        if self.json != STDOUT and rows:
            print_sweep(rows, data)
        if self.parquet is not None and rows:
            from kvtune_lab.sweep.parquet import write_parquet

            with writing(self.parquet):
                write_parquet(data, self.parquet)
        if self.plots is not None and rows:
            _draw(rows, self.plots, self.plot_format, bytes_per_token and bytes_per_token * block_tokens)


def _draw(rows: Sequence["Simulation"], folder: Path, suffix: str, bytes_per_block: int | None) -> None:
    from kvtune_lab.sweep.plots import write_figures

    with writing(folder):
        written = write_figures(rows, folder, suffix, bytes_per_block=bytes_per_block)
    tell(f"plots: {', '.join(map(str, written)) or 'none, because every choice has one value'}")
