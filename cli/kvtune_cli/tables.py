"""Print tables without cutting a figure: as wide as they are to a page, in parts on a narrow terminal.

Rich alone would shorten figures to an ellipsis where a terminal is too narrow.
"""

from copy import copy

from rich.console import Console
from rich.table import Table

WIDEST = 1000
"""Columns of text that no table reaches."""


def print_table(table: Table, *, keys: int = 1) -> None:
    """Print a table; parts of it all begin with its first `keys` columns."""
    console = Console()
    if table.title is not None:  # rich would fold it to the width of the table
        console.print(table.title, style="table.title", soft_wrap=not console.is_terminal)
        table = copy(table)
        table.title = None
    needed = width(console, table)
    if not console.is_terminal:  # what a program or a page takes is not folded
        Console(width=max(console.width, needed)).print(table)
        return
    for part in parts(console, table, keys):
        console.print(part)


def width(console: Console, table: Table) -> int:
    """How many columns of text a table takes where nothing limits it."""
    return console.measure(table, options=console.options.update(width=WIDEST)).maximum


def parts(console: Console, table: Table, keys: int) -> list[Table]:
    """The table in as few parts as fit the console's width, in order; one column at least in each."""
    found, chosen = [], list[int]()
    for column in range(keys, len(table.columns)):
        if chosen and width(console, _part(table, keys, [*chosen, column])) > console.width:
            found.append(chosen)
            chosen = []
        chosen.append(column)
    if not found:
        return [table]
    made = [_part(table, keys, columns) for columns in [*found, chosen]]
    for later in made[1:]:
        later.title = None
    return made


def _part(table: Table, keys: int, columns: list[int]) -> Table:
    """The same table with some of its columns."""
    made = copy(table)
    made.columns = [table.columns[i] for i in (*range(keys), *columns)]
    return made
