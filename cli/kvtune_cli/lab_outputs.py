"""What commands of the laboratory write beside their tables: JSON, Parquet, plots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvtune_cli.lab_options import wrong
from kvtune_cli.output import STDOUT, tell, writing
from kvtune_lab.whole_files import check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_FORMATS = ("png", "svg")

ParquetTarget = Annotated[Path | None, typer.Option("--parquet", help="Write all rows to this file.")]
PlotsFolder = Annotated[Path | None, typer.Option("--plots", help="Draw plots into this folder.")]
PlotFormat = Annotated[str, typer.Option("--plot-format", help="png or svg.")]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where results go, beside the tables."""

    json: Path | None
    parquet: Path | None
    plots: Path | None
    plot_format: str

    def check(self) -> None:
        """Find out before the work whether its results can be written; raises `Unavailable`."""
        if self.plot_format not in PLOT_FORMATS:
            wrong("--plot-format", f"{self.plot_format!r} is not one of {', '.join(PLOT_FORMATS)}")
        if self.plots is not None:
            with writing(self.plots):
                self.plots.mkdir(parents=True, exist_ok=True)
        for target in (self.json, self.parquet):
            if target is not None and target != STDOUT:
                with writing(target):
                    check_writable(target)

    def draw(self, command: str, figures: "Iterable[tuple[str, Figure]]", *, none: str = "none") -> None:
        """Write plots, where they are wanted, and say which; `none` where there is nothing to draw."""
        if self.plots is None:
            return
        from kvtune_lab.looks import write_figures

        with writing(self.plots):
            written = write_figures(figures, self.plots, command=command, suffix=self.plot_format)
        tell(f"plots: {', '.join(map(str, written)) or none}")

    def put_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write flat rows of the same columns as Parquet, where it is wanted."""
        if self.parquet is None:
            return
        from kvtune_lab.capacity.parquet import write_rows

        with writing(self.parquet):
            write_rows(rows, self.parquet)
