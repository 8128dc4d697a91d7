"""Tables keep their figures whole, however narrow the terminal is."""

import io

import pytest
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kvtune_cli.tables import parts, print_table

FIGURES = [f"{100_000 + 7 * column}.{column:02}" for column in range(12)]


def wide() -> Table:
    """A row with a name, a capacity and a dozen figures."""
    table = Table(title="Rates", box=SIMPLE_HEAD)
    for name in ("policy", "capacity"):
        table.add_column(name)
    for column in range(len(FIGURES)):
        table.add_column(f"head {column}", justify="right")
    table.add_row("WorkloadAware", "1,828", *FIGURES)
    return table


def printed(width: int) -> tuple[list[Table], str]:
    console = Console(file=io.StringIO(), width=width)
    found = parts(console, wide(), 2)
    for part in found:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return found, console.file.getvalue()


def test_a_narrow_terminal_gets_every_figure_whole_in_parts_that_name_their_rows() -> None:
    found, text = printed(80)
    assert len(found) > 1
    assert "…" not in text and all(figure in text for figure in FIGURES)
    assert text.count("WorkloadAware") == text.count("1,828") == len(found)
    assert text.count("Rates") == 1, "the title stands once"
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_wide_terminal_gets_one_table() -> None:
    found, text = printed(300)
    assert len(found) == 1 and all(figure in text for figure in FIGURES)


def test_a_title_is_not_folded_to_the_width_of_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title="Points that hints of clients bring, simulated", box=SIMPLE_HEAD)
    table.add_column("right")
    table.add_row("60%")
    print_table(table)
    assert "Points that hints of clients bring, simulated\n" in capsys.readouterr().out


def test_a_terminal_that_is_too_narrow_for_anything_still_ends() -> None:
    found, _ = printed(10)
    assert len(found) == len(FIGURES)
