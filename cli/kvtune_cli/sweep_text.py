"""A sweep as tables for a person: hit rates by capacity, then what left and what was moved."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from kvtune_cli.output import say
from kvtune_cli.tables import print_table
from kvtune_lab.setups import variant_text
from kvtune_lab.simulation import Simulation
from kvtune_lab.sizes import in_bytes


def print_sweep(rows: Sequence[Simulation], data: Sequence[Mapping[str, Any]]) -> None:
    """Print both tables; `data` holds the flat record of each row."""
    say("Hit rate, % of tokens, last half, by blocks:")
    print_table(_rates(rows))
    say("All rows, rates in %:")
    print_table(_moves(rows, data), keys=2)


def _rates(rows: Sequence[Simulation]) -> Table:
    """The last half's tokens: a line for each policy and variant, a column for each capacity."""
    capacities = sorted({row.setup.capacity_blocks for row in rows})
    table = Table(box=SIMPLE_HEAD)
    table.add_column("policy")
    for capacity in capacities:
        table.add_column(f"{capacity:,}", justify="right")
    lines: dict[str, dict[int, Simulation]] = {}
    for row in rows:
        lines.setdefault(_name(row), {})[row.setup.capacity_blocks] = row
    for name, cells in lines.items():
        table.add_row(
            name,
            *(_percent(cells[c].token_hit_rate_last_half) if c in cells else "" for c in capacities),
        )
    return table


def _moves(rows: Sequence[Simulation], data: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each row: all four rates, evictions by reason, what was wanted again, what was moved."""
    table = Table(box=SIMPLE_HEAD)
    rates = ("tokens", "last half", "blocks", "last half")
    counts = ("for room", "by TTL", "wanted again", "written", "read")
    for head in ("policy", "capacity"):
        table.add_column(head, overflow="fold")
    for head in (*rates, *counts):
        table.add_column(head, justify="right")
    for row, record in zip(rows, data, strict=True):
        table.add_row(
            _name(row),
            f"{row.setup.capacity_blocks:,}",
            _percent(row.token_hit_rate),
            _percent(row.token_hit_rate_last_half),
            _percent(row.block_hit_rate),
            _percent(row.block_hit_rate_last_half),
            *(
                _count(record[name])
                for name in ("evictions_pressure", "evictions_ttl", "evicted_then_wanted")
            ),
            _moved(record["bytes_written"], record["blocks_written"]),
            _moved(record["bytes_read"], None),
        )
    return table


def _name(row: Simulation) -> str:
    variant = variant_text(row.setup)
    return f"{row.setup.policy}, {variant}" if variant else str(row.setup.policy)


def _percent(rate: float) -> str:
    return f"{100 * rate:.2f}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _moved(size: int | None, blocks: int | None) -> str:
    """Bytes where they are known, else blocks where they are."""
    if size is not None:
        return in_bytes(size)
    return "-" if blocks is None else f"{blocks:,} blocks"
