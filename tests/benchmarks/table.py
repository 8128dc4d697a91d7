"""A table of measured figures: shown on a terminal, written into docs/benchmarks.md."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures with their heads. `notes` say how they were made and what they miss."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows of another length than the heads."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row)} cells under {len(self.columns)} heads: {row}")


def shown(table: Table, console: Console) -> None:
    """Print a table."""
    rich = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        rich.add_row(*row)
    console.print(rich)
    for note in table.notes:
        console.print(f"  {note}", markup=False)


def markdown(table: Table) -> str:
    """The table in Markdown, with its notes below."""
    lines = [f"### {table.title}", ""]
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|---" + "|---:" * (len(table.columns) - 1) + "|")
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join([*lines, ""])


def share(count: int, of: int) -> str:
    """A share with the counts it comes from."""
    return f"{count / of:.3f} ({count} of {of})" if of else "none ran"
